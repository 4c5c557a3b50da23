package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/proto"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = 30 * time.Second

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newAPI returns the API of a node that is alone, and leads.
func newAPI(t testing.TB) (*api, *raftnode.Node) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node, err := raftnode.Open(context.Background(), raftnode.Config{
		ID: "n1", DataDir: t.TempDir(), Listener: l, Peers: []raftnode.Peer{{ID: "n1", Address: l.Addr().String()}}, Log: quiet,
		Timing: raftnode.Timing{Heartbeat: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	for ctx := deadline(t); node.Leader().ID == ""; {
		if !pause.For(ctx, time.Millisecond) { // it is about to elect itself
			t.Fatal("no leader")
		}
	}
	return newTestAPI(node, nil), node
}

func newTestAPI(node backend, others http.RoundTripper) *api {
	return &api{backend: node, leases: newLeases(), expired: func() {}, others: others, log: quiet}
}

// newServer serves an API over HTTP, and returns a client.
func newServer(t testing.TB) (*client.Client, string) {
	t.Helper()
	a, _ := newAPI(t)
	server := httptest.NewServer(described(t, a.handler()))
	t.Cleanup(server.Close)
	return newClient(t, server.URL), server.URL
}

func newClient(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URLs: []string{url}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func spec(name string, seeds ...uint64) registry.Spec {
	return registry.Spec{Name: name, Tasks: []string{"Swimmer-v2"}, Algorithms: []string{"npg"}, Estimators: []string{"uapg"}, Seeds: seeds}
}

// What each request is answered, by status and by what the body says.
func TestHTTP(t *testing.T) {
	_, url := newServer(t)
	large := `{"end":{"run":"x","epoch":1,"state":"failed","reason":"` + strings.Repeat("x", registry.MaxCommand) + `"}}`
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/commands", `{"submit":{"spec":{"name":"a","tasks":["Swimmer-v2"],"algorithms":["npg"],"estimators":["mc"],"seeds":[1,2]}}}`, 200, `{"runs":2}`},
		{"POST", "/v1/commands", `{"submit":{"spec":{"name":"a","tasks":["Swimmer-v2"],"algorithms":["npg"],"estimators":["mc"],"seeds":[1,2]}}}`, 409, `"exists"`},
		{"POST", "/v1/commands", `{"submit":{"spec":{"name":"b","tasks":["Swimer-v2"],"algorithms":["npg"],"estimators":["mc"],"seeds":[1]}}}`, 400, `did you mean Swimmer-v2`},
		{"POST", "/v1/commands", `{"take":{"learner":"l","ttl_seconds":1}}`, 200, `"name":"a/Swimmer-v2/npg-mc-s1"`},
		{"POST", "/v1/commands", `{"take":{"learner":"l","ttl_seconds":1e-9}}`, 400, `"invalid"`},
		{"POST", "/v1/commands", `{"end":{"run":"a/Swimmer-v2/npg-mc-s1","epoch":0,"state":"done"}}`, 409, `"stale_epoch"`},
		{"POST", "/v1/commands", `{"steer":{"name":"nobody","action":"cancel"}}`, 404, `"not_found"`},
		{"POST", "/v1/commands", `{"cancle":{"name":"a"}}`, 400, `"malformed"`},
		{"POST", "/v1/commands", `{}`, 400, `"invalid"`},
		{"POST", "/v1/commands", `{"steer":{"name":"a","action":"cancel"}} {}`, 400, `"malformed"`},
		{"POST", "/v1/commands", ``, 400, `"malformed"`},
		{"POST", "/v1/commands", large, 413, `"too_large"`},
		{"GET", "/v1/runs?experiment=a&state=queued", "", 200, `"a/Swimmer-v2/npg-mc-s2"`},
		{"GET", "/v1/runs?free=true", "", 200, `"runs":[{"name":"a/Swimmer-v2/npg-mc-s2"`},
		{"GET", "/v1/runs?free=maybe", "", 400, `neither true nor false`},
		{"GET", "/v1/runs?experiment=b", "", 200, `"runs":[]`},
		{"GET", "/v1/runs?wiat=1s", "", 400, `unknown query parameter`},
		{"GET", "/v1/runs?after=100&wait=0.01", "", 200, `"runs":[]`},
		{"GET", "/v1/openapi.json", "", 200, `"openapi": "3.0.3"`},
		{"POST", "/v1/commands", `{"take":{"learner":"m","ttl_seconds":0.01}}`, 400, `"error":{"code":"invalid"`},
		{"POST", "/v1/commands", `{"take":{"learner":"m","ttl_seconds":90}}`, 200, `"ttl_seconds":90`},
		{"POST", "/v1/commands", `{"steer":{"name":"a/Swimmer-v2/npg-mc-s2","action":"pause"}}`, 200, `"state":"paused"`},
		{"POST", "/v1/commands", `{"steer":{"name":"a/Swimmer-v2/npg-mc-s2","action":"resume"}}`, 200, `"state":"queued"`},
		{"GET", "/v1/runs?wait=3600", "", 400, `at most 1m0s`},
		{"GET", "/v1/runs?wait=1h", "", 400, `is not a number of seconds`},
		{"GET", "/v1/runs?after=x", "", 400, `is not an index`},
		{"GET", "/v1/runs/a/Swimmer-v2/npg-mc-s1", "", 200, `"epoch":1`},
		{"GET", "/v1/runs/nobody", "", 404, `"not_found"`},
		{"GET", "/v1/experiments", "", 200, `"runs":{"queued":1,"running":1}`},
		{"POST", "/v1/commands", `{"submit":{"spec":{"name":"c","tasks":["Swimmer-v5"]}}}`, 200, `{"runs":1}`},
		{"GET", "/v1/runs/c/Swimmer-v5/trpo-mc-s1", "", 200, `"state":"queued"`},
		{"GET", "/v1/experiments?state=done", "", 400, `allowed here: none`},
		{"GET", "/v1/seen", "", 200, `"seen":[]`},
		{"GET", "/v1/nodes", "", 200, `"id":"n1"`},
		{"POST", "/v1/nodes", `{"id":"n2","address":"x"}`, 400, `"malformed"`},
		{"DELETE", "/v1/nodes/n7", "", 404, `"not_found"`},
		{"GET", "/v1/backup", "", 200, fmt.Sprintf("dbqpg registry %d\n", registry.Version)},
		{"GET", "/healthz", "", 200, "ok"},
		{"GET", "/readyz", "", 200, "n1 leads"},
		{"GET", "/v2/runs", "", 404, `"not_found"`},
		{"PUT", "/v1/commands", "", 404, `"not_found"`},
	} {
		request, err := http.NewRequestWithContext(deadline(t), c.method, url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", "a program")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s %.80s: %d %.300s, want %d with %s", c.method, c.path, c.body, response.StatusCode, body, c.status, c.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// The client's requests, and that a watcher is told of changes, once each, and of none while there is none.
func TestClientAndWatch(t *testing.T) {
	c, _ := newServer(t)
	exercise(t, c)
	var data bytes.Buffer
	if err := c.Backup(deadline(t), &data); err != nil {
		t.Fatal(err)
	}
	if s, err := registry.Decode(&data); err != nil || len(s.Runs) != 2 {
		t.Errorf("backup: %v", err)
	}
}

func exercise(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := deadline(t)
	before, err := c.Runs(ctx, client.Query{})
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan *client.Runs)
	go func() {
		runs, err := c.Runs(ctx, client.Query{After: before.Index, Wait: patience})
		if err != nil {
			t.Error(err)
		}
		changes <- runs
	}()
	if n, err := c.Submit(ctx, spec("a", 1, 2)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	after := <-changes
	if len(after.Runs) != 2 || after.Index <= before.Index {
		t.Errorf("%+v after %+v", after, before)
	}
	run, err := c.Take(ctx, registry.Take{Learner: "l", TTL: 3600, NATS: "nats://h"})
	if err != nil || run.Epoch != 1 {
		t.Fatal(run, err)
	}
	hold := registry.Hold{Run: run.Name, Epoch: 1}
	hash := strings.Repeat("a", 64)
	if _, err := c.Commit(ctx, registry.Commit{Hold: hold, Previous: hash, Checkpoint: registry.Checkpoint{SHA256: hash}}); !errors.Is(err, client.WrongHash) {
		t.Errorf("commit: %v", err)
	}
	if _, err := c.Commit(ctx, registry.Commit{Hold: hold, Checkpoint: registry.Checkpoint{SHA256: hash}, Summary: map[string]float64{"return_mean": 0.1}}); err != nil {
		t.Fatal(err)
	}
	if run, err = c.Renew(ctx, client.Renewal{Hold: hold, TTL: 7200}); err != nil || run.Lease.TTL != 7200 {
		t.Error(run, err)
	}
	if run, err = c.End(ctx, registry.End{Hold: hold, State: registry.Queued, Reason: "the GPU was lost"}); err != nil || run.State != registry.Queued || run.Losses != 1 {
		t.Error(run, err)
	}
	if _, err := c.End(ctx, registry.End{Hold: hold, State: registry.Done}); !errors.Is(err, client.NotRunning) {
		t.Error(err)
	}
	changed, err := c.Runs(ctx, client.Query{After: after.Index})
	if err != nil || len(changed.Runs) != 1 || changed.Runs[0].Name != run.Name || changed.Runs[0].Summary["return_mean"] != 0.1 {
		t.Errorf("changed: %+v, %v", changed, err)
	}
	again, err := c.Runs(ctx, client.Query{After: changed.Index, Wait: time.Millisecond})
	if err != nil || len(again.Runs) != 0 || again.Index != changed.Index {
		t.Errorf("nothing has changed: %+v, %v", again, err)
	}
	if _, err := c.Run(ctx, "nobody"); !errors.Is(err, client.NotFound) {
		t.Error(err)
	}
	if err := c.Heartbeat(ctx, client.Heartbeat{Learner: "l"}); err != nil {
		t.Error(err)
	}
}

// A run assigned by a response that did not arrive in time is not lost, however often that happens: a repeated request
// returns it.
func TestTakeUnanswered(t *testing.T) {
	a, _ := newAPI(t)
	handler := a.handler()
	lost := make(chan context.CancelFunc, 1) // what the one who asks is told instead
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case giveUp := <-lost:
			handler.ServeHTTP(httptest.NewRecorder(), r)
			giveUp()
			<-r.Context().Done()
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{URLs: []string{server.URL}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Submit(deadline(t), spec("a", 1)); err != nil {
		t.Fatal(err)
	}
	take := registry.Take{Learner: "l", TTL: registry.MinTTL.Seconds()}
	for range registry.MaxLosses + 1 {
		ctx, cancel := context.WithCancel(deadline(t))
		lost <- cancel
		if _, err := c.Take(ctx, take); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := c.Runs(deadline(t), client.Query{Free: true, Wait: patience}); err != nil { // the lease has expired
			t.Fatal(err)
		}
	}
	if run, err := c.Take(deadline(t), take); err != nil || run.Epoch != 1 || run.Losses != 0 {
		t.Errorf("%+v, %v", run, err)
	}
}

// Whoever waits for runs in a state, or for free ones, is answered when there is one, not at other news: a lease that runs
// out frees a run though nothing changes.
func TestWaitFor(t *testing.T) {
	c, _ := newServer(t)
	ctx := deadline(t)
	if _, err := c.Submit(ctx, spec("a", 1)); err != nil {
		t.Fatal(err)
	}
	if free, err := c.Runs(ctx, client.Query{Free: true, Wait: patience}); err != nil || len(free.Runs) != 1 {
		t.Fatal(free, err)
	}
	run, err := c.Take(ctx, registry.Take{Learner: "first", TTL: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if free, err := c.Runs(ctx, client.Query{Free: true}); err != nil || len(free.Runs) != 0 {
		t.Errorf("a run that is leased is free: %+v, %v", free, err)
	}
	hold := registry.Hold{Run: run.Name, Epoch: 1}
	waiting := make(chan *client.Runs, 2)
	for _, q := range []client.Query{{Free: true, After: 1 << 40, Wait: patience}, {State: registry.Done, Wait: patience}} {
		go func() {
			runs, err := c.Runs(ctx, q)
			if err != nil {
				t.Error(err)
			}
			waiting <- runs
		}()
	}
	hash := strings.Repeat("a", 64)
	if _, err := c.Commit(ctx, registry.Commit{Hold: hold, Checkpoint: registry.Checkpoint{SHA256: hash}}); err != nil {
		t.Error(err)
	}
	if _, err := c.Renew(ctx, client.Renewal{Hold: hold, TTL: 0.6}); err != nil {
		t.Error(err)
	}
	if free := <-waiting; len(free.Runs) != 1 || free.Runs[0].State != registry.Running || !free.Runs[0].Free(time.Now()) {
		t.Errorf("waited for a free run: %+v", free)
	}
	if again, err := c.Take(ctx, registry.Take{Learner: "second", TTL: 3600}); err != nil || again.Epoch != 2 {
		t.Fatal(again, err)
	}
	if _, err := c.End(ctx, registry.End{Hold: registry.Hold{Run: run.Name, Epoch: 2}, State: registry.Done}); err != nil {
		t.Error(err)
	}
	if done := <-waiting; len(done.Runs) != 1 || done.Runs[0].State != registry.Done {
		t.Errorf("waited for a run that is done: %+v", done)
	}
}

// Each role is answered what its certificate entitles it to, and nothing else.
func TestRights(t *testing.T) {
	a, _ := newAPI(t)
	directory := filepath.Join(t.TempDir(), "credentials")
	if _, err := credentials.Create(directory, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	own, err := credentials.Load(filepath.Join(directory, "coordinator"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(a.handler())
	server.TLS = own.Server(proto.Roles()...)
	server.StartTLS()
	t.Cleanup(server.Close)
	as := func(role proto.Role) *client.Client {
		c, err := client.Open(client.Config{URLs: []string{strings.Replace(server.URL, "127.0.0.1", "localhost", 1)}, Log: quiet}, filepath.Join(directory, string(role)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	operator, learner, actor, observer := as(proto.RoleOperator), as(proto.RoleLearner), as(proto.RoleActor), as(proto.RoleObserver)
	exercise(t, operator)
	run, err := learner.Take(deadline(t), registry.Take{Learner: "l", TTL: 3600})
	if err != nil {
		t.Fatal(err)
	}
	if err := learner.Heartbeat(deadline(t), client.Heartbeat{Learner: "l", Run: run.Name, Slots: 4}); err != nil {
		t.Error(err)
	}
	if runs, err := observer.Runs(deadline(t), client.Query{State: registry.Running}); err != nil || len(runs.Runs) != 1 {
		t.Errorf("%+v, %v", runs, err)
	}
	hold := registry.Hold{Run: run.Name, Epoch: run.Epoch}
	for name, try := range map[string]func() error{
		"an actor finishes a run": func() error {
			_, err := actor.End(deadline(t), registry.End{Hold: hold, State: registry.Done})
			return err
		},
		"an actor looks at the runs":   func() error { _, err := actor.Runs(deadline(t), client.Query{}); return err },
		"an observer says it is there": func() error { return observer.Heartbeat(deadline(t), client.Heartbeat{}) },
		"a learner submits":            func() error { _, err := learner.Submit(deadline(t), spec("b", 1)); return err },
		"a learner takes a node out":   func() error { return learner.Leave(deadline(t), "n1") },
		"an observer takes a run":      func() error { _, err := observer.Take(deadline(t), registry.Take{}); return err },
		"a learner gets a backup":      func() error { return learner.Backup(deadline(t), io.Discard) },
		"a learner announces a node":   func() error { return learner.Announce(deadline(t), registry.Node{ID: "n1", URL: "http://evil"}) },
		"an observer joins a new node": func() error { return observer.Join(deadline(t), client.Joining{ID: "n9", Address: "h:1"}) },
	} {
		var refused *client.Error
		if err := try(); !errors.As(err, &refused) || refused.Code != client.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Renewing a lease writes nothing to the log, and yet the lease holds: for the list of runs, and against another learner.
func TestRenewalsAreNotLogged(t *testing.T) {
	a, node := newAPI(t)
	server := httptest.NewServer(a.handler())
	t.Cleanup(server.Close)
	c := newClient(t, server.URL)
	ctx := deadline(t)
	if _, err := c.Submit(ctx, spec("a", 1)); err != nil {
		t.Fatal(err)
	}
	run, err := c.Take(ctx, registry.Take{Learner: "first", TTL: registry.MinTTL.Seconds()})
	if err != nil {
		t.Fatal(err)
	}
	hold := registry.Hold{Run: run.Name, Epoch: run.Epoch}
	before := node.Status().Last
	for range 10 {
		if run, err = c.Renew(ctx, client.Renewal{Hold: hold, TTL: 3600}); err != nil || time.Until(run.Lease.Expires) < time.Minute {
			t.Fatal(run, err)
		}
	}
	if free, err := c.Runs(ctx, client.Query{Free: true, Wait: 2 * registry.MinTTL}); err != nil || len(free.Runs) != 0 {
		t.Errorf("%+v, %v", free, err) // the term of Take is over by now
	}
	if run, err = c.Run(ctx, hold.Run); err != nil || run.Lease.Lost || time.Until(run.Lease.Expires) < time.Minute {
		t.Errorf("%+v, %v", run, err)
	}
	if other, err := c.Take(ctx, registry.Take{Learner: "second", TTL: 3600}); !errors.Is(err, client.NothingNow) {
		t.Errorf("taken from under its holder: %+v, %v", other, err)
	}
	if after := node.Status().Last; after != before {
		t.Errorf("%d entries in the log", after-before)
	}
	if _, err := c.Renew(ctx, client.Renewal{Hold: hold, TTL: registry.MinTTL.Seconds()}); err != nil { // and then it falls silent
		t.Fatal(err)
	}
	if free, err := c.Runs(ctx, client.Query{Free: true, Wait: patience}); err != nil || len(free.Runs) != 1 || !free.Runs[0].Lease.Lost {
		t.Errorf("%+v, %v", free, err)
	}
	if other, err := c.Take(ctx, registry.Take{Learner: "second", TTL: 3600}); err != nil || other.Epoch != 2 || other.Losses != 1 {
		t.Errorf("%+v, %v", other, err)
	}
	if _, err := c.Renew(ctx, client.Renewal{Hold: hold, TTL: 3600}); !errors.Is(err, client.StaleEpoch) {
		t.Error(err)
	}
}

// lateNode is a node some time later.
type lateNode struct {
	*raftnode.Node
	ahead *time.Duration
}

func (n lateNode) Time(s *registry.State) time.Time { return n.Node.Time(s).Add(*n.ahead) }

// A learner is silent that has sent no heartbeat for a while, that has let its run's lease expire, or whose run is another's, although
// nobody else tells the coordinator the time.
func TestSilentLearners(t *testing.T) {
	_, node := newAPI(t)
	var ahead time.Duration
	server := httptest.NewServer(newTestAPI(lateNode{node, &ahead}, nil).handler())
	t.Cleanup(server.Close)
	c := newClient(t, server.URL)
	if _, err := c.Submit(deadline(t), spec("a", 1)); err != nil {
		t.Fatal(err)
	}
	run, err := c.Take(deadline(t), registry.Take{Learner: "holds", TTL: client.SilentAfter.Seconds() / 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]string{"idle": "", "holds": run.Name, "held": run.Name} {
		if err := c.Heartbeat(deadline(t), client.Heartbeat{Learner: name, Run: run}); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []struct {
		ahead  time.Duration
		silent []string
	}{{0, []string{"held"}}, {client.SilentAfter * 3 / 4, []string{"held", "holds"}}, {2 * client.SilentAfter, []string{"held", "holds", "idle"}}} {
		ahead = at.ahead
		seen, err := c.Seen(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		var silent []string
		for _, l := range seen.Seen {
			if l.Silent {
				silent = append(silent, l.Name)
			}
		}
		slices.Sort(silent)
		if !slices.Equal(silent, at.silent) {
			t.Errorf("after %v %q are silent, want %q", ahead, silent, at.silent)
		}
	}
}

// Heartbeats are not in the log. A learner that is drained gets no runs until it leaves.
func TestHeartbeats(t *testing.T) {
	a, node := newAPI(t)
	server := httptest.NewServer(a.handler())
	t.Cleanup(server.Close)
	c := newClient(t, server.URL)
	ctx := deadline(t)
	drain := func() error {
		_, err := c.Do(ctx, registry.Command{Drain: &registry.Drain{Learner: "l"}})
		return err
	}
	if err := drain(); !errors.Is(err, client.NotFound) {
		t.Errorf("a learner that nobody has heard of is drained: %v", err)
	}
	before := node.Status().Last
	for _, name := range []string{"m", "l", "m"} {
		if err := c.Heartbeat(ctx, client.Heartbeat{Learner: name}); err != nil {
			t.Fatal(err)
		}
	}
	if after := node.Status().Last; after != before {
		t.Errorf("%d entries in the log", after-before)
	}
	if err := drain(); err != nil {
		t.Fatal(err)
	}
	seen, err := c.Seen(ctx)
	if err != nil || len(seen.Seen) != 2 || seen.Seen[0].Name != "l" || !seen.Seen[0].Drained || seen.Seen[1].Drained {
		t.Errorf("%+v, %v", seen, err)
	}
	take := registry.Take{Learner: "l", TTL: 1}
	if _, err := c.Take(ctx, take); !errors.Is(err, client.Drained) {
		t.Error(err)
	}
	if err := c.Heartbeat(ctx, client.Heartbeat{Learner: "l", Gone: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Take(ctx, take); !errors.Is(err, client.NothingNow) {
		t.Error(err)
	}
	if seen, err := c.Seen(ctx); err != nil || len(seen.Seen) != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
	for _, h := range []client.Heartbeat{{}, {Learner: "a b"}, {Learner: "l", Run: "a\nb"}, {Learner: "l", Slots: -1}} {
		if err := c.Heartbeat(ctx, h); !errors.Is(err, &registry.Refusal{Code: registry.Invalid}) {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// A command with an Idempotency-Key is executed once, however often it is sent, and answered the same each time.
func TestIdempotencyKey(t *testing.T) {
	_, url := newServer(t)
	post := func(key, agent, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(deadline(t), http.MethodPost, url+"/v1/commands", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Idempotency-Key": key, "User-Agent": agent} {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, _ := io.ReadAll(response.Body)
		return string(answer)
	}
	defer http.DefaultClient.CloseIdleConnections()
	submit := `{"submit":{"spec":{"name":"a","tasks":["Swimmer-v2"],"algorithms":["npg"],"estimators":["mc"],"seeds":[1,2]}}}`
	first := post("k1", "a program", submit)
	if again := post("k1", "a program", submit); again != first || first != "{\"runs\":2}\n" {
		t.Errorf("%s, then %s", first, again)
	}
	if other := post("k2", "a program", submit); !strings.HasPrefix(other, `{"error":{"code":"exists"`) {
		t.Error(other)
	}
}

// Whatever is sent, the answer is one, and the coordinator's state stays sound.
func FuzzHTTP(f *testing.F) {
	a, node := newAPI(f)
	handler := a.handler()
	f.Add("POST", "/v1/commands", []byte(`{"take":{"learner":"l","ttl_seconds":1}}`))
	f.Add("POST", "/v1/commands", []byte(`{"submit":{"spec":{"name":"a","tasks":["Swimmer-v2"],"algorithms":["npg"],"estimators":["mc"],"seeds":[1],"overrides":[{"name":"rank","values":["3"]}]}}}`))
	f.Add("GET", "/v1/runs?after=1&wait=0.001", []byte(nil))
	f.Add("GET", "/v1/runs/a%2Fb", []byte(nil))
	f.Add("POST", "/v1/nodes", []byte(`{"id":"","address":"h:1"}`))
	f.Fuzz(func(t *testing.T, method, target string, body []byte) {
		if strings.Contains(target, "nodes") && strings.Contains(string(body), "address") || strings.Contains(target, "wait=") || method == "DELETE" {
			return // would change who is the majority, or wait
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://h"+target, bytes.NewReader(body))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s", w.Body)
		}
		if err := node.Read(ctx, func(s *registry.State) {
			var out bytes.Buffer
			if err := s.Encode(&out); err != nil {
				t.Fatal(err)
			}
			if _, err := registry.Decode(&out); err != nil {
				t.Fatal(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	})
}
