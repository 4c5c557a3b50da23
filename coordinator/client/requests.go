package client

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/web"
)

// Submit adds an experiment and returns how many runs it has.
func (c *Client) Submit(ctx context.Context, spec registry.Spec) (runs int, err error) {
	r, err := c.Do(ctx, registry.Command{Submit: &registry.Submit{Spec: spec}})
	return r.Runs, err
}

// Take leases a run. The error is NothingNow if there is none to take.
func (c *Client) Take(ctx context.Context, o registry.Take) (*registry.Run, error) {
	return c.run(ctx, registry.Command{Take: &o})
}

// Renew extends a lease.
func (c *Client) Renew(ctx context.Context, r Renewal) (*registry.Run, error) {
	run := new(registry.Run)
	err := c.call(ctx, http.MethodPost, "/v1/renewals", r, run, 0)
	return run, err
}

// Commit adds a checkpoint to a run's chain.
func (c *Client) Commit(ctx context.Context, o registry.Commit) (*registry.Run, error) {
	return c.run(ctx, registry.Command{Commit: &o})
}

// End ends the hold on a run.
func (c *Client) End(ctx context.Context, o registry.End) (*registry.Run, error) {
	return c.run(ctx, registry.Command{End: &o})
}

func (c *Client) run(ctx context.Context, command registry.Command) (*registry.Run, error) {
	r, err := c.Do(ctx, command)
	return r.Run, err
}

// Heartbeat reports that a learner is alive, or that it leaves.
func (c *Client) Heartbeat(ctx context.Context, h Heartbeat) error {
	return c.call(ctx, http.MethodPost, "/v1/heartbeats", h, nil, 0)
}

// Announce announces the URL at which a coordinator node takes requests.
func (c *Client) Announce(ctx context.Context, n registry.Node) error {
	_, err := c.Do(ctx, registry.Command{Announce: &registry.Announce{Node: n}})
	return err
}

// Run returns a run by its name.
func (c *Client) Run(ctx context.Context, name string) (*registry.Run, error) {
	return get[registry.Run](ctx, c, "/v1/runs/"+url.PathEscape(name), 0)
}

// Runs returns the runs that match a query. To watch runs, query again with After set to the last answer's Index.
func (c *Client) Runs(ctx context.Context, q Query) (*Runs, error) {
	return get[Runs](ctx, c, "/v1/runs?"+q.values().Encode(), q.Wait)
}

// Experiments returns all experiments.
func (c *Client) Experiments(ctx context.Context) ([]Experiment, error) {
	all, err := get[Experiments](ctx, c, "/v1/experiments", 0)
	return all.Experiments, err
}

// Seen returns the learners seen recently.
func (c *Client) Seen(ctx context.Context) (*Seen, error) { return get[Seen](ctx, c, "/v1/seen", 0) }

// Nodes returns the coordinator's nodes.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := get[Nodes](ctx, c, "/v1/nodes", 0)
	return nodes.Nodes, err
}

// get returns the answer to a request, the zero value with an error.
func get[T any](ctx context.Context, c *Client, path string, wait time.Duration) (*T, error) {
	answer := new(T)
	if err := c.call(ctx, http.MethodGet, path, nil, answer, wait); err != nil {
		return new(T), err
	}
	return answer, nil
}

// Join adds a node to the coordinator.
func (c *Client) Join(ctx context.Context, j Joining) error {
	return c.call(ctx, http.MethodPost, "/v1/nodes", j, nil, 0)
}

// Lost makes the coordinator forget a node that has lost its directory and is about to join again. It returns the term
// up to which that node must never vote.
func (c *Client) Lost(ctx context.Context, j Joining) (term uint64, err error) {
	var lost Lost
	err = c.call(ctx, http.MethodPost, "/v1/nodes/lost", j, &lost, 0)
	return lost.Term, err
}

// Leave removes a node from the coordinator.
func (c *Client) Leave(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/nodes/"+url.PathEscape(id), nil, nil, 0)
}

// Backup writes the coordinator's entire state to w. After an error w may contain part of it.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	return c.call(ctx, http.MethodGet, "/v1/backup", nil, w, 0)
}

// Table returns a page of the table of runs, as [web.Table] says.
func (c *Client) Table(ctx context.Context, query url.Values) (*web.Table, error) {
	return get[web.Table](ctx, c, "/data/runs?"+query.Encode(), 0)
}

// Logs returns the names of the logs of a run's workers, in the order of its epochs.
func (c *Client) Logs(ctx context.Context, run string) (names []string, err error) {
	page, err := get[struct {
		Files []struct {
			Name string `json:"name"`
		} `json:"files"`
	}](ctx, c, "/data/run?"+url.Values{"name": {run}}.Encode(), MaxWait)
	for _, f := range page.Files {
		if strings.HasPrefix(f.Name, "logs/") {
			names = append(names, f.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(epochs.OfLog(a), epochs.OfLog(b)) })
	return names, err
}

// File returns a file of a run: by its name in the run's directory of the workers' store, or as Logs has it.
func (c *Client) File(ctx context.Context, run, name string) ([]byte, error) {
	var data bytes.Buffer
	query := url.Values{"name": {run}, "file": {name}}.Encode()
	err := c.call(ctx, http.MethodGet, "/data/file?"+query, nil, &data, MaxWait)
	return data.Bytes(), err
}
