package observe_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// Every name, help and unit is as Prometheus's own linter wants it, and what begins at zero is there from the
// beginning.
func TestConventions(t *testing.T) {
	learner, actor, coordinator := observe.NewLearner(), observe.NewActor(), observe.NewCoordinator()
	learner.Begin("run", "task", "npg", "uapg")
	learner.Stage.WithLabelValues("scores").Observe(1)
	actor.RunInfo.WithLabelValues("all").Set(1)
	coordinator.Runs.WithLabelValues("queued").Set(1)
	coordinator.Requests.WithLabelValues("GET /v1/runs", "200").Observe(1)
	for name, process := range map[string]prometheus.Gatherer{
		"learner": learner, "actor": actor, "coordinator": coordinator,
	} {
		problems, err := testutil.GatherAndLint(process)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
		families, err := process.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "dbqpg_") {
				t.Errorf("%s: %s is not dbqpg's", name, f.GetName())
			}
			if len(f.GetMetric()) > 8 {
				t.Errorf("%s: %s has %d series", name, f.GetName(), len(f.GetMetric()))
			}
		}
	}
	if n, err := testutil.GatherAndCount(learner, "dbqpg_learner_episodes_total"); n != 4 || err != nil {
		t.Errorf("%d outcomes of episodes, %v, want 4 before there is any", n, err)
	}
}

// A total follows a count that starts again with its keeper.
func TestTotal(t *testing.T) {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "a_total"})
	total := observe.NewTotal(c)
	for _, step := range []struct{ count, want float64 }{{0, 0}, {3, 3}, {3, 3}, {5, 5}, {0, 5}, {2, 7}} {
		if total.Set(step.count); testutil.ToFloat64(c) != step.want {
			t.Errorf("after %v: %v, want %v", step.count, testutil.ToFloat64(c), step.want)
		}
	}
}

// start serves a learner's metrics and returns the server's URL.
func start(t *testing.T, learner *observe.Learner, pprof bool) string {
	t.Helper()
	var log strings.Builder
	stop, err := learner.Start(observe.Config{Listen: ":0", Pprof: pprof,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	found := regexp.MustCompile(`url=(http://127\.0\.0\.1:\d+)/metrics`).FindStringSubmatch(log.String())
	if found == nil {
		t.Fatalf("the log does not tell a URL of this machine alone: %s", log.String())
	}
	return found[1]
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func TestServer(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	learner := observe.NewLearner()
	url := start(t, learner, false)
	expect := func(path string, status int, text string) {
		t.Helper()
		if got, body := get(t, url+path); got != status || !strings.Contains(body, text) {
			t.Errorf("%s: %d %s, want %d with %q", path, got, body, status, text)
		}
	}
	expect("/healthz", 200, "alive")
	expect("/readyz", 503, "starting")
	learner.Watch(func() error { return nil }, func() { learner.UsefulActors.Set(15) })
	expect("/readyz", 200, "ready")
	expect("/metrics", 200, "dbqpg_learner_useful_actors 15\n")
	expect("/metrics", 200, "\ngo_goroutines ")
	expect("/metrics", 200, "\nprocess_resident_memory_bytes ")
	learner.Watch(func() error { return errors.New("the server is gone") }, nil)
	expect("/readyz", 503, "the server is gone")
	learner.End()
	expect("/readyz", 503, "no run")
	expect("/metrics", 200, "dbqpg_learner_useful_actors 0\n") // or actors would stay for a run that is over
	expect("/", 404, "")
	expect("/debug/pprof/", 404, "")
	for kind, want := range map[string]int{
		"application/json": http.StatusMethodNotAllowed, "text/plain": http.StatusForbidden,
	} {
		response, err := http.Post(url+"/metrics", kind, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("POST /metrics, %s: %s", kind, response.Status)
		}
	}
}

func TestPprof(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	url := start(t, observe.NewLearner(), true)
	if status, body := get(t, url+"/debug/pprof/goroutine?debug=1"); status != 200 ||
		!strings.Contains(body, "goroutine profile") {
		t.Errorf("the profile of goroutines: %d %s", status, body)
	}
}

// Of more connections than there may be, those that have been silent longest are closed, and the newest is answered.
func TestConnectionsAreBounded(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	url := start(t, observe.NewLearner(), false)
	var held []net.Conn
	for range 200 {
		connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		held = append(held, connection)
	}
	for _, connection := range held[:136] {
		if _, err := connection.Read(make([]byte, 1)); err == nil {
			t.Error("a silent connection has an answer")
		}
	}
	response, err := http.Get(url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

func TestCheckListen(t *testing.T) {
	for _, c := range []struct {
		listen string
		pprof  bool
		says   string // "": it is good
	}{
		{"", false, ""},
		{"127.0.0.1:0", true, ""},
		{"localhost:9464", true, ""},
		{":9464", true, ""},
		{"[::1]:9464", true, ""},
		{"0.0.0.0:9464", false, ""},
		{"0.0.0.0:9464", true, "for this machine only"},
		{"", true, "add --metrics-listen"},
		{"9464", false, "must be host:port"},
		{":http", false, "must be host:port"},
		{":70000", false, "must be host:port"},
	} {
		err := observe.CheckListen("--metrics-listen", c.listen, c.pprof)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q, pprof %v: %v, want %q", c.listen, c.pprof, err, c.says)
		}
	}
}

// An address that is taken is an error that says what to do.
func TestListenFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = observe.NewActor().Start(observe.Config{Listen: listener.Addr().String(), Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "--metrics-listen") {
		t.Errorf("an address in use: %v", err)
	}
}

// Requests are counted under the program's own routes, whatever clients ask for.
func TestRequests(t *testing.T) {
	c := observe.NewCoordinator()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/runs/{run}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("run") == "none" {
			http.NotFound(w, r)
		}
	})
	handler := c.Count(mux)
	for _, path := range []string{
		"/v1/runs/a", "/v1/runs/b", "/v1/runs/none", "/elsewhere", "/strange/1", "/strange/2",
	} {
		handler.ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequestWithContext(context.Background(), "GET", path, nil))
	}
	for labels, want := range map[[2]string]uint64{
		{"GET /v1/runs/{run}", "200"}: 2, {"GET /v1/runs/{run}", "404"}: 1, {"unknown", "404"}: 3,
	} {
		if got := count(t, c, "dbqpg_coordinator_request_seconds", labels[1], labels[0]); got != want {
			t.Errorf("%v: %d requests, want %d", labels, got, want)
		}
	}
	if n, err := testutil.GatherAndCount(c, "dbqpg_coordinator_request_seconds"); n != 3 || err != nil {
		t.Errorf("%d series, %v, want 3", n, err)
	}
}

// count is how many observations a histogram has with label values, in the order of the labels' names.
func count(t *testing.T, g prometheus.Gatherer, name string, values ...string) uint64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.GetMetric() {
			for i, l := range m.GetLabel() {
				if l.GetValue() != values[i] {
					continue series
				}
			}
			return m.GetHistogram().GetSampleCount()
		}
	}
	return 0
}

// Pages are refused under the names of strangers wherever they are served, and the metrics only on this machine.
func TestPagesUnderOtherNames(t *testing.T) {
	process := observe.NewProcess("test")
	process.Watch(func() error { return nil }, nil)
	var log strings.Builder
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	stop, err := process.Start(observe.Config{Listen: "0.0.0.0:0", Pages: pages,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, rest, _ := strings.Cut(log.String(), "url=http://localhost:")
	port, _, _ := strings.Cut(rest, "/")
	for _, c := range []struct {
		path, host string
		want       int
	}{{"/", "", http.StatusTeapot}, {"/", "evil.example", http.StatusForbidden},
		{"/metrics", "prometheus.example", http.StatusOK}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s as %q: %d, want %d", c.path, c.host, response.StatusCode, c.want)
		}
	}
}
