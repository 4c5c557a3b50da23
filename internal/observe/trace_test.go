package observe_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dbqpg/dbqpg/internal/observe"
)

// receiver is a collector of traces.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*tracepb.Span
	requests []*http.Request
	statuses []int // of the answers to come; 200 after them
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, request)
		if len(r.statuses) > 0 {
			w.WriteHeader(r.statuses[0])
			r.statuses = r.statuses[1:]
			return
		}
		var body io.Reader = request.Body
		if request.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unpacked
		}
		data, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		var traces tracepb.TracesData
		if err := proto.Unmarshal(data, &traces); err != nil {
			t.Error(err)
		}
		for _, resource := range traces.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// byName returns the spans, which must have different names.
func (r *receiver) byName(t *testing.T) map[string]*tracepb.Span {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	spans := map[string]*tracepb.Span{}
	for _, s := range r.spans {
		if spans[s.Name] != nil {
			t.Errorf("two spans %s", s.Name)
		}
		spans[s.Name] = s
	}
	return spans
}

// iteration observes one as a learner does, with an episode of another process.
func iteration(learner *observe.Learner, actor *observe.Actor, number uint64, failure error) {
	run := learner.Begin("run", "task", "npg", "uapg")
	run.At(2, number, 100)
	ctx, end := run.Iteration(context.Background(), number, number+1)
	_, collected := observe.Span(ctx, "collect")
	actor.Span("play", "run", 2, number+1, 5)(nil)
	collected(nil)
	updateCtx, updated := observe.Span(ctx, "update")
	run.Stages(updateCtx)("scores", time.Millisecond)
	updated(nil)
	run.Commit(ctx)(&failure)
	end(&failure)
}

// The spans of learner and actor are one trace, without anything being sent from one to the other.
func TestTrace(t *testing.T) {
	r := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hush, x-tenant=me")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	var log bytes.Buffer
	learner, actor := observe.NewLearner(), observe.NewActor()
	var stops []func()
	for _, p := range []*observe.Process{learner.Process, actor.Process} {
		stop, err := p.Start(observe.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	iteration(learner, actor, 7, errors.New("the disk is full"))
	for _, stop := range stops { // which sends what there is
		stop()
	}

	spans := r.byName(t)
	root := spans["iteration"]
	for name, parent := range map[string]string{"collect": "iteration", "play": "iteration", "update": "iteration",
		"scores": "update", "checkpoint": "iteration"} {
		s := spans[name]
		if s == nil || !bytes.Equal(s.TraceId, root.TraceId) || !bytes.Equal(s.ParentSpanId, spans[parent].SpanId) {
			t.Errorf("%s is %v, want a part of %s in the trace %x", name, s, parent, root.TraceId)
		}
	}
	if len(root.ParentSpanId) > 0 || root.Status.GetMessage() != "the disk is full" ||
		root.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the iteration's span: %v", root)
	}
	if s := spans["scores"]; s.EndTimeUnixNano-s.StartTimeUnixNano != uint64(time.Millisecond) {
		t.Errorf("a stage of 1 ms: %v", s)
	}
	for _, request := range r.requests {
		if h := request.Header; request.URL.Path != "/v1/traces" || h.Get("Authorization") != "Bearer hush" ||
			h.Get("X-Tenant") != "me" ||
			h.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("the request to %s: %v", request.URL, h)
		}
	}
	if strings.Contains(log.String(), "hush") {
		t.Errorf("the log tells a secret: %s", log.String())
	}
}

// A collector that is busy is asked again; one that refuses loses the spans, which the log hears once.
func TestCollectorRefuses(t *testing.T) {
	for status, want := range map[int]int{503: 2, 429: 2, 400: 1} {
		r := newReceiver(t)
		r.statuses = []int{status}
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
		var log bytes.Buffer
		learner := observe.NewLearner()
		stop, err := learner.Start(observe.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		iteration(learner, observe.NewActor(), 1, nil)
		stop()
		if len(r.requests) != want || strings.Count(log.String(), "are lost") != 2-want {
			t.Errorf("%d: %d requests, want %d; the log:\n%s", status, len(r.requests), want, log.String())
		}
	}
}

// Nothing is sent unless the environment asks for it, whatever else it says.
func TestTracesAreOff(t *testing.T) {
	r := newReceiver(t)
	for _, variables := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range variables {
				t.Setenv(name, value)
			}
			learner, actor := observe.NewLearner(), observe.NewActor()
			stop, err := learner.Start(observe.Config{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			iteration(learner, actor, 1, nil)
			stop()
		})
	}
	if len(r.requests) > 0 {
		t.Errorf("%d requests", len(r.requests))
	}
}

func TestBadTraceSettings(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":    "collector:4318",
		"OTEL_EXPORTER_OTLP_PROTOCOL":    "grpc",
		"OTEL_EXPORTER_OTLP_TIMEOUT":     "soon",
		"OTEL_EXPORTER_OTLP_HEADERS":     "hush",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere.pem",

		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(variable, value)
			_, err := observe.NewLearner().Start(observe.Config{Log: quiet})
			if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_") ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("%s=%s: %v", variable, value, err)
			}
		})
	}
}

// BenchmarkIteration is what an iteration of eight stages and 15 episodes costs to be observed.
func BenchmarkIteration(b *testing.B) {
	for _, on := range []bool{false, true} {
		name := "off"
		if on {
			name = "on"
		}
		b.Run(name, func(b *testing.B) {
			if on {
				b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", newReceiver(b).URL)
			}
			learner := observe.NewLearner()
			stop, err := learner.Start(observe.Config{Log: quiet})
			if err != nil {
				b.Fatal(err)
			}
			defer stop()
			run := learner.Begin("run", "task", "npg", "uapg")
			b.ReportAllocs()
			for number := uint64(0); b.Loop(); number++ {
				ctx, end := run.Iteration(context.Background(), number, number+1)
				for ticket := range uint64(15) {
					learner.Actor.Span("play", "run", 1, number+1, ticket)(nil)
					learner.Actor.Span("upload", "run", 1, number+1, ticket)(nil)
				}
				updateCtx, updated := observe.Span(ctx, "update")
				lap := run.Stages(updateCtx)
				for _, stage := range []string{"scores", "targets", "decomposition", "kernel step", "estimate",
					"calibration", "policy step"} {
					lap(stage, time.Millisecond)
				}
				updated(nil)
				run.Commit(ctx)(nil)
				end(nil)
			}
		})
	}
}
