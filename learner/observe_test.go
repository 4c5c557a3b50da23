package main_test

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

// fetch returns what a process answers over HTTP.
func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(processtest.Context(t), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
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

// metricsURL returns the URL of a process's metrics, from its log.
func (p *process) metricsURL() string {
	p.t.Helper()
	return p.Expect(`serving metrics.*(http://127\.0\.0\.1:\d+)/metrics`)[1]
}

// scrape returns the metrics of a process by name, with the values of the labels, in the order of their names, in
// braces.
func scrape(t *testing.T, url string) map[string]float64 {
	t.Helper()
	status, body := fetch(t, url+"/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, body)
	}
	values := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += "{" + l.GetValue() + "}"
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				values[key] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				values[key] = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				values[key+" count"] = float64(m.GetHistogram().GetSampleCount())
				values[key+" sum"] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return values
}

// columns returns the row of progress.csv that is the last of so many iterations, and the sums of its columns up to it.
func columns(t *testing.T, directory string, iterations int) (row, sums map[string]float64) {
	t.Helper()
	file, err := os.Open(filepath.Join(directory, "progress.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	header, err := reader.Read()
	sums = map[string]float64{}
	for done := 0; done < iterations && err == nil; done++ {
		row = map[string]float64{}
		var texts []string
		if texts, err = reader.Read(); err == nil {
			for i, text := range texts {
				row[header[i]], _ = strconv.ParseFloat(text, 64)
				sums[header[i]] += row[header[i]]
			}
		}
	}
	if err != nil || row["iteration"] != float64(iterations-1) {
		t.Fatalf("the row of iteration %d: %v, %v", iterations-1, row, err)
	}
	return row, sums
}

// What Prometheus reads of a learner is what progress.csv says, and what an actor says agrees with it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	directory := newDirectory(t)
	learner := start(t, "learner", examples[1].arguments(directory, "--actors", "0", "--iterations", "1000000",
		"--metrics-listen", ":0")...)
	url := learner.metricsURL()
	actor := start(t, "actor", "--nats", learner.url(), "--slots", "1", "--metrics-listen", ":0")
	learner.iterations(3)
	for _, served := range []string{url, actor.metricsURL()} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if status, body := fetch(t, served+path); status != http.StatusOK {
				t.Errorf("%s%s: %d %s", served, path, status, body)
			}
		}
	}
	got := scrape(t, url)
	iterations := int(got["dbqpg_learner_iteration"])
	if iterations < 3 {
		t.Errorf("after 3 iterations: %d", iterations)
	}
	row, sums := columns(t, directory, iterations)
	for name, want := range map[string]float64{
		"dbqpg_learner_iterations_total":                                         row["iteration"] + 1,
		"dbqpg_learner_iterations_planned":                                       1000000,
		"dbqpg_learner_steps_total":                                              row["steps"],
		"dbqpg_learner_episodes_total{accepted}":                                 row["episodes"],
		"dbqpg_learner_episodes_total{rejected}":                                 0,
		"dbqpg_learner_return_mean":                                              row["return_mean"],
		"dbqpg_learner_episode_length_mean":                                      row["length_mean"],
		"dbqpg_learner_kl_divergence":                                            row["kl"],
		"dbqpg_learner_cg_iterations":                                            row["cg_iterations"],
		"dbqpg_learner_sampling_seconds count":                                   row["iteration"] + 1,
		"dbqpg_learner_sampling_seconds sum":                                     sums["seconds_sampling"],
		"dbqpg_learner_updating_seconds sum":                                     sums["seconds_updating"],
		"dbqpg_learner_actors":                                                   1,
		"dbqpg_learner_epoch":                                                    1,
		"dbqpg_nats_connected":                                                   1,
		"dbqpg_learner_refused_messages_total":                                   0,
		"dbqpg_learner_dropped_messages_total":                                   0,
		"dbqpg_learner_nats_slow_consumers_total":                                0,
		"dbqpg_actor_episodes_total{accepted}":                                   0, // it has no local ones
		"dbqpg_learner_device_memory_peak_bytes":                                 0,
		"dbqpg_learner_run_info{trpo}{uapg}{" + examples[1].run + "}{Hopper-v2}": 1,
	} {
		if value, there := got[name]; !there || math.Abs(value-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s is %v, %v; progress.csv says %v in iteration %v", name, value, there, want, row["iteration"])
		}
	}
	if got["dbqpg_learner_stage_seconds{estimate} count"] < row["iteration"]+1 ||
		got["dbqpg_learner_checkpoint_seconds count"] < row["iteration"]+1 || // the last may be being written
		got["dbqpg_learner_checkpoint_bytes"] < 10_000 || got["dbqpg_learner_received_bytes_total"] < 10_000 ||
		got["go_goroutines"] < 1 {
		t.Errorf("stages, checkpoints or bytes are missing: %v", got)
	}
	played := scrape(t, actor.metricsURL())
	if played["dbqpg_actor_episodes_total{accepted}"] < row["episodes"] ||
		played["dbqpg_actor_steps_total"] < row["steps"] ||
		played["dbqpg_actor_sent_bytes_total"] < got["dbqpg_learner_received_bytes_total"] ||
		played["dbqpg_actor_slots"] != 1 ||
		played["dbqpg_actor_run_info{all}"] != 1 || played["dbqpg_nats_connected"] != 1 {
		t.Errorf("the actor says %v,\nthe learner %v", played, got)
	}
}

// Readiness reports whether there is a connection; being alive does not depend on it.
func TestReadiness(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(processtest.Port(t))
	address := "127.0.0.1:" + port
	learner := start(t, "learner", examples[1].externally(newDirectory(t), "nats://"+address, "--actors", "0",
		"--metrics-listen", ":0")...)
	actor := start(t, "actor", "--nats", "nats://"+address, "--metrics-listen", ":0")
	both := []*process{learner, actor}
	expect := func(ready int, says string) {
		t.Helper()
		for _, p := range both {
			if status, body := fetch(t, p.metricsURL()+"/readyz"); status != ready || !strings.Contains(body, says) {
				t.Errorf("%s is ready: %d %s, want %d %s", p, status, body, ready, says)
			}
			if status, _ := fetch(t, p.metricsURL()+"/healthz"); status != http.StatusOK {
				t.Errorf("%s is alive: %d", p, status)
			}
		}
	}
	for _, p := range both {
		p.Expect("no NATS server answers")
	}
	expect(http.StatusServiceUnavailable, "starting")
	server, _ := startServer(t, port)
	learner.iterations(1)
	expect(http.StatusOK, "ready")
	learner.Signal(syscall.SIGSTOP) // so that it is not through before
	server.Kill()
	learner.Signal(syscall.SIGCONT)
	for _, p := range both {
		p.Expect("lost the NATS server")
	}
	expect(http.StatusServiceUnavailable, "not connected")
	startServer(t, port)
	for _, p := range both {
		p.Expect("connected to the NATS server again")
	}
	expect(http.StatusOK, "ready")
}

// collector receives traces.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans map[string][]*tracepb.Span // by service
}

func startCollector(t *testing.T) *collector {
	c := &collector{spans: map[string][]*tracepb.Span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var traces tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(data, &traces)
		}
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range traces.ResourceSpans {
			service := ""
			for _, a := range resource.Resource.GetAttributes() {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range resource.ScopeSpans {
				c.spans[service] = append(c.spans[service], scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// tree counts the spans that are part of another, by "name of the part < name of the whole".
func (c *collector) tree() (parts map[string]int, traces int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, seen := map[string]string{}, map[string]bool{}
	for _, spans := range c.spans {
		for _, s := range spans {
			names[hex.EncodeToString(s.TraceId)+hex.EncodeToString(s.SpanId)] = s.Name
			seen[string(s.TraceId)] = true
		}
	}
	parts = map[string]int{}
	for service, spans := range c.spans {
		for _, s := range spans {
			parts[fmt.Sprintf("%s: %s < %s", service, s.Name,
				names[hex.EncodeToString(s.TraceId)+hex.EncodeToString(s.ParentSpanId)])]++
		}
	}
	return parts, len(seen)
}

// startTraced starts a program with variables of the environment.
func startTraced(t *testing.T, environment []string, program string, arguments ...string) *process {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, program), arguments...)
	cmd.Env = append(os.Environ(), environment...)
	return startCommand(t, cmd)
}

// Two iterations are traced from the publication of their policies to their checkpoints, with the episodes that another
// process plays; each line of the log says in JSON which run and iteration it belongs to.
func TestTracesAndJSONLogs(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	environment := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}
	_, url := startServer(t, "0")
	actor := startTraced(t, environment, "actor", "--nats", url, "--slots", "1", "--log-format", "json")
	actor.Expect(`"msg":"joined"`)
	directory := newDirectory(t)
	learner := startTraced(t, environment, "learner",
		examples[1].externally(directory, url, "--actors", "0", "--iterations", "2", "--log-format", "json")...)
	learner.Succeed()
	actor.Signal(syscall.SIGTERM)
	actor.Succeed()

	row, _ := columns(t, directory, 2)
	parts, traces := c.tree()
	if traces != 3 { // the batch of the normaliser is an iteration too
		t.Errorf("%d traces, want one an iteration", traces)
	}
	for part, want := range map[string]int{
		"iteration < ": 3, "collect < iteration": 3, "publish < collect": 3, "checkpoint < iteration": 3,
		"update < iteration": 2,
		"scores < update":    2, "targets < update": 2, "decomposition < update": 2, "kernel step < update": 2,
		"estimate < update": 2, "calibration < update": 2, "policy step < update": 2,
	} {
		if got := parts["dbqpg-learner: "+part]; got != want {
			t.Errorf("%d spans %s, want %d", got, part, want)
		}
	}
	for _, name := range []string{"play", "upload"} {
		if got := parts["dbqpg-actor: "+name+" < iteration"]; got < int(row["episodes"]) {
			t.Errorf("%d spans %s in the iterations' traces, want at least %v: %v", got, name, row["episodes"], parts)
		}
	}
	requireJSONLog(t, learner, examples[1].run)
}

// requireJSONLog checks that each line is an object that names the run, and the iteration from where it is known on.
func requireJSONLog(t *testing.T, p *process, run string) {
	t.Helper()
	known, done := false, 0
	for line := range strings.SplitSeq(p.Log(), "\n") {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if slices.Contains([]any{"sending traces", "serving metrics", "open this address in a browser"},
			fields["msg"]) {
			continue // of the process
		}
		_, has := fields["iteration"].(float64)
		if fields["run"] != run || known && !has {
			t.Errorf("%s: which run, which iteration?", line)
		}
		known = known || has
		if fields["msg"] == "iteration done" {
			if fields["iteration"] != float64(done) {
				t.Errorf("%s, want iteration %d", line, done)
			}
			done++
		}
	}
	if done != 2 {
		t.Errorf("%d iterations in the log:\n%s", done, p.Log())
	}
}

// Nothing is sent where the environment says that traces are off.
func TestNoTraces(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	environment := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_TRACES_EXPORTER=none"}
	learner := startTraced(t, environment, "learner",
		examples[1].arguments(newDirectory(t), "--actors", "1", "--iterations", "1")...)
	learner.Succeed()
	if parts, _ := c.tree(); len(parts) > 0 {
		t.Errorf("sent %v", parts)
	}
}
