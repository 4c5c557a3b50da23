package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
)

// Backend executes requests: a *[raftnode.Node].
type Backend interface {
	Propose(context.Context, registry.Command) (registry.Response, error)
	Read(context.Context, func(*registry.State)) error
	View(func(*registry.State))
	Time(*registry.State) time.Time
	Changed(after uint64) <-chan struct{}
	Leader() registry.Node
	Members() []registry.Member
	Status() raftnode.Status
	Join(context.Context, raftnode.Peer) error
	Remove(ctx context.Context, id string) error
	Forget(ctx context.Context, p raftnode.Peer) (term uint64, err error)
}

// Config holds an API's settings.
type Config struct {
	// Backend executes requests.
	Backend Backend
	// Validate completes a spec and checks it beyond its form; nil accepts all.
	Validate func(*registry.Spec) error
	// Expired, if not nil, is called when a run is taken whose lease had expired.
	Expired func()
	// Tokens is the file of tokens that stand for certificates; "" means none.
	Tokens credentials.Tokens
	// URL is this node's own, whose name it answers to even before the others know it.
	URL string
	// Nodes makes requests to the other nodes, as one of them; nil means http.DefaultTransport.
	Nodes http.RoundTripper
	// Log records internal errors; nil means slog.Default.
	Log *slog.Logger
}

// API answers requests.
type API struct {
	Backend
	validate func(*registry.Spec) error
	expired  func()
	log      *slog.Logger
	tokens   credentials.Tokens
	url      string
	others   http.RoundTripper
	leases   leases
	learners learners
}

// New returns an API.
func New(c Config) *API {
	a := &API{Backend: c.Backend, validate: c.Validate, expired: c.Expired, log: c.Log, tokens: c.Tokens, url: c.URL, others: c.Nodes, leases: newLeases()}
	if a.log == nil {
		a.log = slog.Default()
	}
	return a
}

// timeout bounds how long a request waits for a majority of the nodes.
const timeout = 10 * time.Second

// command executes a command; it accepts an experiment only if its tasks and settings exist.
func (a *API) command(ctx context.Context, c registry.Command) (registry.Response, error) {
	if c.Submit != nil && a.validate != nil {
		if err := a.validate(&c.Submit.Spec); err != nil {
			return registry.Response{Refusal: &registry.Refusal{Code: registry.Invalid, Message: err.Error()}}, nil
		}
	}
	if c.Announce != nil && c.Announce.URL != "" {
		u, err := url.Parse(c.Announce.URL)
		if err == nil {
			err = raftnode.CheckHost(u.Hostname())
		}
		if err != nil {
			return registry.Response{Refusal: &registry.Refusal{Code: registry.Invalid, Message: fmt.Sprintf("node %s at %s: %v", c.Announce.ID, c.Announce.URL, err)}}, nil
		}
	}
	if err := c.Check(); err != nil { // Propose refuses it
		return a.Propose(ctx, c)
	}
	propose := a.Propose
	switch {
	case c.Take != nil:
		propose = a.take
	case c.Drain != nil:
		propose = a.drain
	}
	response, err := propose(ctx, c)
	if c.Take != nil && a.expired != nil {
		for range response.Runs {
			a.expired()
		}
	}
	return response, err
}

func (a *API) run(ctx context.Context, name string) (*registry.Run, error) {
	var found *registry.Run
	err := a.Read(ctx, func(s *registry.State) {
		if run := s.Run(name); run != nil {
			now := a.leases.now(run, a.Time(s))
			found = &now
		}
	})
	if err == nil && found == nil {
		err = &client.Error{Code: registry.NotFound, Message: "there is no run called " + name}
	}
	return found, err
}

// experiments answers a query's page of experiments.
func (a *API) experiments(ctx context.Context, q client.Query) (*client.Experiments, error) {
	all, known := &client.Experiments{Experiments: []client.Experiment{}}, true
	err := a.Read(ctx, func(s *registry.State) {
		page := s.Experiments
		if q.Page != "" {
			last := slices.IndexFunc(page, func(e registry.Experiment) bool { return e.Spec.Name == q.Page })
			page, known = page[last+1:], last >= 0
		}
		if q.Limit > 0 && len(page) > q.Limit {
			page, all.Next = page[:q.Limit], page[q.Limit-1].Spec.Name
		}
		counts := map[string]map[registry.RunState]int{}
		for _, e := range page {
			counts[e.Spec.Name] = map[registry.RunState]int{}
			all.Experiments = append(all.Experiments, client.Experiment{Experiment: e, Runs: counts[e.Spec.Name]})
		}
		for i := range s.Runs {
			if count := counts[s.Runs[i].Experiment]; count != nil {
				count[s.Runs[i].State]++
			}
		}
	})
	if err == nil && !known {
		err = gone(q.Page)
	}
	return all, err
}

// gone is the error of a page that cannot be found again.
func gone(page string) error {
	return &client.Error{Code: client.Malformed, Message: fmt.Sprintf("page=%.80q: what was there is gone; begin with the first page", page)}
}

func (a *API) seen(ctx context.Context) (answer *client.Seen, err error) {
	err = a.Read(ctx, func(s *registry.State) { answer = a.Seen(s) })
	return answer, err
}

func (a *API) nodes(ctx context.Context) (*client.Nodes, error) {
	err := a.Read(ctx, func(*registry.State) {})
	return &client.Nodes{Nodes: append([]client.Node{}, a.Members()...)}, err
}

func (a *API) join(ctx context.Context, j client.Joining) error {
	if _, err := raftnode.ParsePeers(j.ID + "=" + j.Address); err != nil {
		return &client.Error{Code: client.Malformed, Message: err.Error()}
	}
	return a.Join(ctx, raftnode.Peer{ID: j.ID, Address: j.Address})
}

// leave removes a node.
func (a *API) leave(ctx context.Context, id string) error {
	if err := a.Read(ctx, func(*registry.State) {}); err != nil {
		return err
	}
	for _, m := range a.Members() {
		if m.ID == id {
			return a.Remove(ctx, id)
		}
	}
	return &client.Error{Code: registry.NotFound, Message: "there is no node called " + id}
}

// lost removes a node that has lost its directory and asks, from its old address, to be readmitted. From another address it
// may be a different node that was given its name by mistake.
func (a *API) lost(ctx context.Context, j client.Joining) (*client.Lost, error) {
	if _, err := raftnode.ParsePeers(j.ID + "=" + j.Address); err != nil {
		return nil, &client.Error{Code: client.Malformed, Message: err.Error()}
	}
	if err := a.Read(ctx, func(*registry.State) {}); err != nil {
		return nil, err
	}
	for _, m := range a.Members() {
		if m.ID == j.ID && (m.Address != j.Address || m.Leader) {
			return nil, &client.Error{Code: registry.Exists, Message: fmt.Sprintf("there is a node %s, at %s: start this one under "+
				"another name, or, if that one is lost, \"coordinator leave %s\" first", m.ID, m.Address, m.ID)}
		}
	}
	term, err := a.Forget(ctx, raftnode.Peer{ID: j.ID, Address: j.Address})
	return &client.Lost{Term: term}, err
}

// backup returns the entire state.
func (a *API) backup(ctx context.Context) ([]byte, error) {
	var state *registry.State
	if err := a.Read(ctx, func(s *registry.State) { state = s.Clone() }); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err := state.Encode(&out)
	return out.Bytes(), err
}

// failure converts an error to the form in which it is sent.
func (a *API) failure(err error) *client.Error {
	var known *client.Error
	var elsewhere *raftnode.NotLeaderError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &elsewhere):
		return &client.Error{Code: client.Unavailable, Message: elsewhere.Error() + ": retry; if this lasts, start the nodes that are missing of a majority (docs/coordinator.md)"}
	case errors.Is(err, raftnode.ErrUnsafe):
		return &client.Error{Code: client.Unsafe, Message: err.Error()}
	case errors.Is(err, raftnode.ErrDisk):
		return &client.Error{Code: client.Disk, Message: err.Error() + ": make room on its disk"}
	case errors.Is(err, raftnode.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &client.Error{Code: client.Unavailable, Message: err.Error()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &client.Error{Code: client.Malformed, Message: "the request ends early"}
	}
	a.log.Error("a request failed", "error", err)
	return &client.Error{Code: client.Internal, Message: err.Error()}
}
