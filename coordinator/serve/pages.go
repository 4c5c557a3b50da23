package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/web"
)

const (
	// refreshEvery is the time between two reads of a registry without changes, while somebody looks at the pages.
	refreshEvery = time.Second
	// pagesTimeout is how long the leader may take to begin its answer to another node's page.
	pagesTimeout = 2 * time.Minute
)

// pages is the pages' source of runs, the leader's registry and the workers' store, and executes their users' actions.
type pages struct {
	api  *api
	kept store.Store // nil if this node does not know it

	mu      sync.Mutex
	changed uint64    // the registry's last change, and
	read    time.Time // when it was last read: leases are renewed without a change
	all     []web.Run // by name
	known   map[string]shown
}

// shown is a run as it was when it last changed.
type shown struct {
	changed uint64
	run     web.Run
}

// pages returns the handler of the pages. The leader answers their requests for data.
func (c *Config) pages(a *api) http.HandlerFunc {
	p := &pages{api: a}
	if c.Checkpoints != "" {
		if kept, err := store.Expect(c.Checkpoints); err == nil {
			p.kept = kept
		} else { // no experiment depends on it
			c.Log.Warn("no curves and files: --checkpoints cannot be used", "error", err)
		}
	}
	config := web.Config{Source: p, Actions: p, Log: c.Log}
	if player, err := url.Parse(c.Play); err == nil && c.Play != "" { // Run has checked it
		config.Live = p.watched(web.Relay(player))
	}
	here := web.Handler(config)
	return func(w http.ResponseWriter, r *http.Request) {
		local := !strings.HasPrefix(r.URL.Path, "/data/") || r.URL.Path == "/data/login" || r.URL.Path == "/data/logout"
		if !local && require(r, look) == nil {
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			err := a.Read(ctx, func(*registry.State) {})
			if cancel(); err != nil {
				a.forwardOrFail(w, r, r.Body, err, pagesTimeout)
				return
			}
		}
		here.ServeHTTP(w, r)
	}
}

const (
	maxViewers = 4               // of one user at the same time
	checkEvery = 2 * time.Second // whether a viewer's user may still look
)

// watched lets each user have a few viewers, as long as they may look.
func (p *pages) watched(live http.Handler) http.Handler {
	var mu sync.Mutex
	viewers := map[string]int{}
	count := func(user string, n int) bool {
		mu.Lock()
		defer mu.Unlock()
		if viewers[user] += n; viewers[user] == 0 {
			delete(viewers, user)
		}
		return viewers[user] <= maxViewers
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := who(r)
		defer count(user, -1)
		if !count(user, +1) {
			text := fmt.Sprintf("you watch %d robots already: close one of the pages", maxViewers)
			http.Error(w, text, http.StatusTooManyRequests)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			for pause.For(ctx, checkEvery) {
				if rights(p.api.sender(r).role)&look == 0 {
					cancel()
				}
			}
		}()
		live.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Store implements [web.Source].
func (p *pages) Store() store.Store { return p.kept }

// Runs implements [web.Source].
func (p *pages) Runs(context.Context) ([]web.Run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var runs []registry.Run
	var now time.Time
	p.api.View(func(s *registry.State) {
		if s.Changed != p.changed || time.Since(p.read) > refreshEvery {
			runs, now, p.changed = slices.Clone(s.Runs), p.api.Time(s), s.Changed
		}
	})
	if now.IsZero() {
		return p.all, nil
	}
	all, known := make([]web.Run, len(runs)), make(map[string]shown, len(runs))
	for i := range runs {
		run := p.api.leases.now(&runs[i], now)
		last, ok := p.known[run.Name]
		if !ok || last.changed != run.Changed || run.Lease != nil { // leases are renewed without a change
			w := newRun(&run)
			if i > 0 && alike(&run, &runs[i-1]) {
				before := &all[i-1]
				w.Settings, w.Iterations, w.AllSteps = before.Settings, before.Iterations, before.AllSteps
			} else {
				w.Settings, w.Iterations, w.AllSteps = settingsOf(&run)
			}
			if run.Lease != nil && !run.Lease.Lost {
				w.ETA = w.Remaining()
			}
			last = shown{run.Changed, w}
		}
		all[i], known[run.Name] = last.run, last
	}
	slices.SortFunc(all, func(a, b web.Run) int { return strings.Compare(a.Name, b.Name) })
	p.read, p.all, p.known = time.Now(), all, known
	return all, nil
}

// alike reports whether two runs differ in their seeds at most.
func alike(a, b *registry.Run) bool {
	return a.Experiment == b.Experiment && a.Task == b.Task && a.Algorithm == b.Algorithm &&
		a.Estimator == b.Estimator && a.Length == b.Length && slices.Equal(a.Settings, b.Settings)
}

// settingsOf returns a run's settings and length.
func settingsOf(run *registry.Run) (given map[string]string, iterations, steps web.Number) {
	given = map[string]string{}
	for _, s := range sweep.Overrides(run) {
		given[s.Name] = s.Value
	}
	if settings, err := sweep.Settings(run); err == nil { // else a program with other settings submitted it
		iterations, steps = web.Number(settings.Iterations), web.Number(settings.Steps)
	}
	return given, iterations, steps
}

// newRun converts a run of the registry.
func newRun(run *registry.Run) web.Run {
	w := web.Run{
		Name: run.Name, Experiment: run.Experiment, Task: run.Task, Algorithm: run.Algorithm, Estimator: run.Estimator,
		Seed: strconv.FormatUint(run.Seed, 10), State: web.State(run.State), Reason: run.Reason, Epoch: run.Epoch,
		Row: web.Row{
			Iteration: web.Number(run.Iteration()), Steps: web.Number(run.Steps), Return: number(run, "return_mean"),
			Best: number(run, "best_return"), ETA: web.None, Heard: run.Updated,
		},
		Elapsed: number(run, "seconds_elapsed"), Logs: epochs.Logs(run.Home()),
	}
	if run.Checkpoint != nil && !store.Hidden(run.Checkpoint.Location) { // learners say where it is
		w.Directory = path.Dir(path.Dir(run.Checkpoint.Location))
	}
	if run.Lease != nil {
		w.Learner, w.Heard = run.Lease.Learner, run.Lease.Heard()
		if run.Lease.Lost {
			w.State = web.Lost
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

// User implements [web.Actions]. Users may do what their roles permit in the API. Without credentials, where everybody
// on this machine could act through the API, the pages only read.
func (p *pages) User(r *http.Request) (name string, may []string, err error) {
	if r.TLS == nil {
		return "", []string{}, nil
	}
	switch rights := rights(senderOf(r).role); {
	case rights&administer != 0:
		may = []string{"check", "submit", "cancel", "retry", "remove"}
	case rights&look != 0:
		may = []string{}
	default:
		err = errors.New("log in with a token")
	}
	return who(r), may, err
}

// Login implements [web.Actions].
func (p *pages) Login(token string) (*http.Cookie, error) {
	if err := p.api.checkToken(token); token != "" && err != nil {
		return nil, err
	}
	return &http.Cookie{Name: tokenCookie, Value: token, Path: "/", Secure: true}, nil
}

// Do implements [web.Actions].
func (p *pages) Do(r *http.Request, a web.Action) (string, error) {
	var command registry.Command
	var verb string
	steer := func(action registry.Action) registry.Command {
		return registry.Command{Steer: &registry.Steer{Name: a.Name, Action: action}}
	}
	switch a.Action {
	case "check", "submit":
		spec, err := sweep.Parse([]byte(a.Sweep))
		if err != nil {
			return "", err
		}
		if a.Action == "check" {
			return describe(spec), nil
		}
		command, verb = registry.Command{Submit: &registry.Submit{Spec: *spec}}, "queued"
	case "cancel":
		command, verb = steer(registry.Cancel), "cancelled"
	case "retry":
		command, verb = steer(registry.Retry), "queued again"
	case "remove":
		command, verb = registry.Command{Remove: &registry.Remove{Experiment: a.Name}}, "removed"
	default:
		return "", fmt.Errorf("%.20q is not an action", a.Action)
	}
	response, err := p.api.execute(r, command)
	if err != nil {
		return "", err
	}
	if n := cmp.Or(response.Runs, 1); n != 1 {
		return fmt.Sprintf("%d runs are %s", n, verb), nil
	}
	return "1 run is " + verb, nil
}

// describe lists the first runs of a sweep.
func describe(spec *registry.Spec) string {
	const most = 10
	runs := spec.Expand()
	text := fmt.Sprintf("%s is valid: %d runs\n", spec.Name, len(runs))
	for _, run := range runs[:min(most, len(runs))] {
		text += run.Name + "\n"
	}
	if len(runs) > most {
		text += "...\n"
	}
	return text
}
