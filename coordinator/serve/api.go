package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
	"github.com/dbqpg/dbqpg/internal/credentials"
)

// backend executes requests: a *[raftnode.Node].
type backend interface {
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

// api answers requests.
type api struct {
	backend
	leases   leases
	learners learners
	expired  func()             // called for each expired lease that a learner's Take finds
	tokens   credentials.Tokens // "" for none
	url      string             // this node's own, which it answers to before the others know it
	others   http.RoundTripper  // carries forwarded requests, under this node's certificate
	log      *slog.Logger
}

// timeout bounds how long a request waits for a majority of the nodes.
const timeout = 10 * time.Second

// execute executes a command if its sender may, and logs it. The error of a refusal is a [client.Error].
func (a *api) execute(r *http.Request, c registry.Command) (registry.Response, error) {
	if err := require(r, rightFor(&c)); err != nil {
		return registry.Response{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	response, err := a.command(ctx, c)
	if err == nil && response.Refusal != nil {
		err = refused(response.Refusal)
	}
	if err == nil {
		a.logChange(r, &c)
	}
	return response, err
}

// command executes a command. It accepts an experiment only if its tasks and settings exist.
func (a *api) command(ctx context.Context, c registry.Command) (response registry.Response, err error) {
	var invalid error
	switch {
	case c.Submit != nil:
		invalid = sweep.Validate(&c.Submit.Spec)
	case c.Announce != nil && c.Announce.URL != "":
		var u *url.URL
		if u, invalid = url.Parse(c.Announce.URL); invalid == nil {
			invalid = raftnode.CheckHost(u.Hostname())
		}
	}
	if invalid != nil {
		return registry.Response{}, client.Errorf(registry.Invalid, "%v", invalid)
	}
	switch {
	case c.Check() != nil: // Propose refuses it
	case c.Drain != nil:
		return a.drain(ctx, c)
	case c.Take != nil:
		response, err = a.take(ctx, c)
		for range response.Runs {
			a.expired()
		}
		return response, err
	}
	return a.Propose(ctx, c)
}

func (a *api) run(ctx context.Context, name string) (found *registry.Run, err error) {
	err = a.Read(ctx, func(s *registry.State) {
		if run := s.Run(name); run != nil {
			now := a.leases.now(run, a.Time(s))
			found = &now
		}
	})
	if err == nil && found == nil {
		err = client.Errorf(registry.NotFound, "there is no run called %s", name)
	}
	return found, err
}

func (a *api) experiments(ctx context.Context) (*client.Experiments, error) {
	all := &client.Experiments{Experiments: []client.Experiment{}}
	err := a.Read(ctx, func(s *registry.State) {
		counts := map[string]map[registry.RunState]int{}
		for _, e := range s.Experiments {
			counts[e.Spec.Name] = map[registry.RunState]int{}
			all.Experiments = append(all.Experiments, client.Experiment{Experiment: e, Runs: counts[e.Spec.Name]})
		}
		for i := range s.Runs {
			counts[s.Runs[i].Experiment][s.Runs[i].State]++
		}
	})
	return all, err
}

func (a *api) seen(ctx context.Context) (answer *client.Seen, err error) {
	err = a.Read(ctx, func(s *registry.State) { answer = a.learnersIn(s) })
	return answer, err
}

func (a *api) nodes(ctx context.Context) (*client.Nodes, error) {
	err := a.Read(ctx, func(*registry.State) {})
	return &client.Nodes{Nodes: append([]client.Node{}, a.Members()...)}, err
}

// peer checks a node's name and address.
func peer(j client.Joining) (raftnode.Peer, error) {
	if _, err := raftnode.ParsePeers(j.ID + "=" + j.Address); err != nil {
		return raftnode.Peer{}, client.Errorf(client.Malformed, "%v", err)
	}
	return raftnode.Peer{ID: j.ID, Address: j.Address}, nil
}

func (a *api) join(ctx context.Context, j client.Joining) error {
	p, err := peer(j)
	if err != nil {
		return err
	}
	return a.Join(ctx, p)
}

// leave removes a node.
func (a *api) leave(ctx context.Context, id string) error {
	if err := a.Read(ctx, func(*registry.State) {}); err != nil {
		return err
	}
	for _, m := range a.Members() {
		if m.ID == id {
			return a.Remove(ctx, id)
		}
	}
	return client.Errorf(registry.NotFound, "there is no node called %s", id)
}

// lost removes a node that has lost its directory and asks, from its old address, to be readmitted. From another
// address it may be a different node that was given its name by mistake.
func (a *api) lost(ctx context.Context, j client.Joining) (*client.Lost, error) {
	p, err := peer(j)
	if err != nil {
		return nil, err
	}
	if err := a.Read(ctx, func(*registry.State) {}); err != nil {
		return nil, err
	}
	for _, m := range a.Members() {
		if m.ID == j.ID && (m.Address != j.Address || m.Leader) {
			return nil, client.Errorf(registry.Exists, "there is a node %s, at %s: start this one "+
				"under another name or, if that one is lost, run \"coordinator leave %s\" first", m.ID, m.Address, m.ID)
		}
	}
	term, err := a.Forget(ctx, p)
	return &client.Lost{Term: term}, err
}

// backup returns the entire state.
func (a *api) backup(ctx context.Context) ([]byte, error) {
	var state *registry.State
	if err := a.Read(ctx, func(s *registry.State) { state = s.Clone() }); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err := state.Encode(&out)
	return out.Bytes(), err
}

// failure converts an error to its form on the wire.
func (a *api) failure(err error) *client.Error {
	var known *client.Error
	var elsewhere *raftnode.NotLeaderError
	code, advice := client.Unavailable, ""
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &elsewhere):
		advice = ": retry; if this lasts, start the nodes that are missing of a majority (docs/coordinator.md)"
	case errors.Is(err, raftnode.ErrUnsafe):
		code = client.Unsafe
	case errors.Is(err, raftnode.ErrDisk):
		code, advice = client.Disk, ": make room on its disk"
	case errors.Is(err, raftnode.ErrUnavailable), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled):
	case errors.Is(err, io.ErrUnexpectedEOF):
		return client.Errorf(client.Malformed, "the request ends early")
	default:
		a.log.Error("a request failed", "error", err)
		code = client.Internal
	}
	return &client.Error{Code: code, Message: err.Error() + advice}
}
