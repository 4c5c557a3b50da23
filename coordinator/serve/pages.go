package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/api"
	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/web"
)

const (
	// refreshEvery is the time between two looks at the registry, while somebody looks at the pages.
	refreshEvery = time.Second
	// refreshTimeout bounds a look, after which what was seen last is shown for staleAfter.
	refreshTimeout, staleAfter = 5 * time.Second, 30 * time.Second
	// actTimeout bounds an action.
	actTimeout = 10 * time.Second
)

// runs is the pages' source: the registry, as the leader knows it, and the workers' store.
type runs struct {
	cluster *client.Client
	kept    store.Store // nil: not known to this node

	mu     sync.Mutex
	index  uint64
	known  map[string]registry.Run
	all    []web.Run
	looked time.Time // when the registry was last seen
	kinds  map[string]kind
}

// kind is what runs that differ in their seeds have in common.
type kind struct {
	settings map[string]string
	length   config.Length
}

// pages returns the handler of the pages, which forward what users want done to the leader.
func (c *Config) pages(ctx context.Context, self string, answers *api.API) (http.Handler, func(), error) {
	cluster, err := c.newClient(self)
	if err != nil {
		return nil, nil, err
	}
	source := &runs{cluster: cluster, known: map[string]registry.Run{}, kinds: map[string]kind{}}
	if c.Checkpoints != "" {
		opening, cancel := context.WithTimeout(ctx, actTimeout)
		kept, err := store.OpenExisting(opening, c.Checkpoints)
		if cancel(); err == nil {
			source.kept = kept
		} else { // no experiment depends on it
			c.Log.Warn("the pages have no curves and files: start this node again once its --checkpoints can be reached", "error", err)
		}
	}
	config := web.Config{Source: source, Actions: &actions{answers, cluster, c.Log}, Log: c.Log}
	if player, err := url.Parse(c.Play); err == nil && c.Play != "" { // Run has checked it
		config.Live = web.Relay(player)
	}
	return answers.Guard(web.Handler(config)), cluster.Close, nil
}

// Store implements [web.Source].
func (r *runs) Store() store.Store { return r.kept }

// Runs implements [web.Source].
func (r *runs) Runs(ctx context.Context) ([]web.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < refreshEvery {
		return r.all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := r.look(ctx); err != nil {
		if time.Since(r.looked) < staleAfter {
			return r.all, nil
		}
		return nil, fmt.Errorf("the coordinator has no leader that answers: %w", err)
	}
	r.looked = time.Now()
	return r.all, nil
}

// look asks for the runs that have changed, and for those in training, whose leases are renewed without a change.
func (r *runs) look(ctx context.Context) error {
	experiments, err := r.cluster.Experiments(ctx)
	if err != nil {
		return err
	}
	changed, err := r.cluster.Runs(ctx, client.Query{After: r.index})
	if err != nil {
		return err
	}
	running, err := r.cluster.Runs(ctx, client.Query{State: registry.Running})
	if err != nil {
		return err
	}
	if len(changed.Runs) == 0 && len(running.Runs) == 0 && len(r.known) == total(experiments) && changed.Index == r.index {
		return nil
	}
	r.take(slices.Concat(changed.Runs, running.Runs))
	if r.index = changed.Index; len(r.known) != total(experiments) { // an experiment was removed
		everything, err := r.cluster.Runs(ctx, client.Query{})
		if err != nil {
			return err
		}
		clear(r.known)
		clear(r.kinds) // and what only its runs had in common
		r.take(everything.Runs)
	}
	names := slices.Sorted(maps.Keys(r.known))
	r.all = make([]web.Run, len(names))
	for i, name := range names {
		run := r.known[name]
		r.all[i] = r.show(&run)
	}
	return nil
}

func (r *runs) take(runs []registry.Run) {
	for _, run := range runs {
		r.known[run.Name] = run
	}
}

func total(experiments []client.Experiment) (n int) {
	for _, e := range experiments {
		for _, runs := range e.Runs {
			n += runs
		}
	}
	return n
}

// show returns what the pages show of a run.
func (r *runs) show(run *registry.Run) web.Run {
	k := r.kind(run)
	w := web.Run{
		Name: run.Name, Experiment: run.Experiment, Task: run.Task, Algorithm: run.Algorithm, Estimator: run.Estimator,
		Seed: strconv.FormatUint(run.Seed, 10), Settings: k.settings, State: run.State, Reason: run.Reason, Iteration: run.Iteration(),
		Iterations: k.length.Iterations, Steps: run.Steps, AllSteps: k.length.Steps, Epoch: run.Epoch, Heard: run.Updated, Logs: epochs.Logs(run.Home()),
		Return: number(run, "return_mean"), Best: number(run, "best_return"), Elapsed: number(run, "seconds_elapsed"), ETA: web.None,
	}
	if run.Checkpoint != nil {
		w.Directory = path.Dir(path.Dir(run.Checkpoint.Location))
	}
	if run.Lease != nil {
		w.Learner, w.Heard = run.Lease.Learner, run.Lease.Heard()
		if w.ETA = w.Remaining(); run.Lease.Lost {
			w.State, w.ETA = web.Lost, web.None
		}
	}
	return w
}

func number(run *registry.Run, metric string) web.Number {
	if v, ok := run.Summary[metric]; ok {
		return web.Number(v)
	}
	return web.None
}

// kind returns what a run has in common with others.
func (r *runs) kind(run *registry.Run) kind {
	var key strings.Builder
	fmt.Fprint(&key, run.Task, " ", run.Algorithm, " ", run.Estimator)
	settings := sweep.Overrides(run)
	for _, s := range settings {
		fmt.Fprintf(&key, " %s=%q", s.Name, s.Value)
	}
	if there, ok := r.kinds[key.String()]; ok {
		return there
	}
	k := kind{settings: map[string]string{}}
	for _, s := range settings {
		k.settings[s.Name] = s.Value
	}
	if settings, err := sweep.Settings(run); err == nil { // else a program with other settings submitted it
		k.length = settings.Length
	}
	r.kinds[key.String()] = k
	return k
}

// actions are what users of the pages may do, by the roles of the API. Without credentials, where everybody on this machine could act through
// the API, the pages only read.
type actions struct {
	api     *api.API
	cluster *client.Client
	log     *slog.Logger
}

// User implements [web.Actions].
func (a *actions) User(r *http.Request) (name string, may []string, err error) {
	if r.TLS == nil {
		return "", []string{}, nil
	}
	name, look, administer := a.api.Sender(r)
	switch {
	case administer:
		return name, []string{"check", "submit", "cancel", "retry", "remove"}, nil
	case look:
		return name, []string{}, nil
	}
	return "", nil, errors.New("log in with a token")
}

// Login implements [web.Actions].
func (a *actions) Login(token string) (*http.Cookie, error) {
	if err := a.api.CheckToken(token); token != "" && err != nil {
		return nil, err
	}
	return &http.Cookie{Name: api.TokenCookie, Value: token, Path: "/", Secure: true}, nil
}

// Do implements [web.Actions].
func (a *actions) Do(r *http.Request, action web.Action) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), actTimeout)
	defer cancel()
	var command registry.Command
	var verb string
	switch action.Action {
	case "check", "submit":
		spec, err := sweep.Parse([]byte(action.Sweep))
		if err != nil {
			return "", err
		}
		if action.Action == "check" {
			return describe(spec), nil
		}
		command, verb = registry.Command{Submit: &registry.Submit{Spec: *spec}}, "queued"
	case "cancel":
		command, verb = registry.Command{Steer: &registry.Steer{Name: action.Name, Action: registry.Cancel}}, "cancelled"
	case "retry":
		command, verb = registry.Command{Steer: &registry.Steer{Name: action.Name, Action: registry.Retry}}, "queued again"
	case "remove":
		command, verb = registry.Command{Remove: &registry.Remove{Experiment: action.Name}}, "removed"
	default:
		return "", fmt.Errorf("%.20q is no action", action.Action)
	}
	response, err := a.cluster.Do(ctx, command)
	if err != nil {
		return "", err
	}
	by, _, _ := a.api.Sender(r)
	a.log.Info("changed in the browser", "by", by, "action", action.Action, "name", action.Name)
	if n := cmp.Or(response.Runs, 1); n != 1 {
		return fmt.Sprintf("%d runs are %s", n, verb), nil
	}
	return "1 run is " + verb, nil
}

// describe lists the first runs of a sweep.
func describe(spec *registry.Spec) string {
	const shown = 10
	runs := spec.Expand()
	text := fmt.Sprintf("%s is valid: %d runs\n", spec.Name, len(runs))
	for _, run := range runs[:min(shown, len(runs))] {
		text += run.Name + "\n"
	}
	if len(runs) > shown {
		text += "...\n"
	}
	return text
}
