package observe

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/dbqpg/dbqpg/internal/commandline"
)

// Process contains the metrics, health and traces common to all kinds of processes.
type Process struct {
	kind     string
	registry *prometheus.Registry
	tracer   trace.Tracer // nil while traces are off

	BuildInfo *prometheus.GaugeVec // version, revision, goversion
	Connected prometheus.Gauge
	Expiry    *prometheus.GaugeVec // no labels; absent without credentials

	mu       sync.Mutex
	ready    func() error
	refresh  func()
	works    bool             // [Process.Watch] has been called
	announce func()           // logs the pages' address once the process works; nil afterwards
	expires  func() time.Time // nil without credentials
}

// newProcess registers the tables' metrics and those common to all processes.
func newProcess(kind string, tables ...[]metric) *Process {
	p := &Process{kind: kind, registry: prometheus.NewRegistry()}
	p.Idle("starting")
	for _, table := range append(tables, p.table()) {
		for _, m := range table {
			p.registry.MustRegister(m.create(m.name, m.help))
		}
	}
	version, revision := build()
	p.BuildInfo.WithLabelValues(version, revision, runtime.Version()).Set(1)
	return p
}

func (p *Process) table() []metric {
	return []metric{
		{"dbqpg_build_info", gauges(&p.BuildInfo, "version", "revision", "goversion"),
			"1, with version, commit and Go's version in the labels."},
		{"dbqpg_certificate_expiry_timestamp_seconds", gauges(&p.Expiry),
			"Expiry of the process's certificate, in Unix time; absent without --credentials."},
		{"dbqpg_nats_connected", gauge(&p.Connected), "1 while connected to the NATS server."},
	}
}

// Config configures a process's HTTP server.
type Config struct {
	// Listen is the HTTP server's host:port; "" means no server. Without a host it is 127.0.0.1; port 0 picks a free
	// port, which is logged. [AutoListen] is 127.0.0.1:8080, or a free port if that one is in use.
	Listen string
	// Pages handles all requests except those for metrics, health, readiness and profiles; nil means there are none.
	Pages http.Handler
	// Page is the path of the page to open first.
	Page string
	// Pprof adds Go's profiles under /debug/pprof/.
	Pprof bool
	// Log is for operators; nil means slog.Default.
	Log *slog.Logger
}

// NewProcess returns the metrics common to all processes, for other kinds of processes.
func NewProcess(kind string) *Process { return newProcess(kind) }

// Start serves the metrics if c.Listen is set, and sends traces if the environment asks for them, until stop is called.
// Call it before observing anything.
func (p *Process) Start(c Config) (stop func(), err error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	stopTraces, err := p.startTraces(c.Log)
	if err != nil {
		return nil, err
	}
	stopServer, err := p.serve(c)
	if err != nil {
		stopTraces()
		return nil, err
	}
	return func() { stopServer(); stopTraces() }, nil
}

// Watch sets the functions of a working process. ready returns nil, or the reason that it cannot do its work. refresh,
// if non-nil, is called before the metrics are read and sets those counted elsewhere. Both are called from any
// goroutine, one at a time, and never after the next Watch or [Process.Idle] has returned.
func (p *Process) Watch(ready func() error, refresh func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.refresh, p.works = ready, refresh, true
	if p.announce != nil {
		p.announce()
		p.announce = nil
	}
}

// WatchCertificate sets the function that returns when the process's certificate expires.
func (p *Process) WatchCertificate(expires func() time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expires = expires
}

// SetConnected records whether err, of connecting to the NATS server, is nil.
func (p *Process) SetConnected(err error) {
	p.Connected.Set(1)
	if err != nil {
		p.Connected.Set(0)
	}
}

// Idle marks the process as not ready, and says why.
func (p *Process) Idle(reason string) {
	err := errors.New(reason)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.refresh = func() error { return err }, nil
}

// Update calls f, which sets related metrics: a reader sees all of its changes or none.
func (p *Process) Update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Ready returns nil if the process can do its work, or else the reason.
func (p *Process) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready()
}

// Gather implements [prometheus.Gatherer].
func (p *Process) Gather() ([]*dto.MetricFamily, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refresh != nil {
		p.refresh()
	}
	if p.expires != nil {
		p.Expiry.WithLabelValues().Set(float64(p.expires().Unix()))
	}
	return p.registry.Gather()
}

// registerRuntime adds the metrics that every Go program has.
func (p *Process) registerRuntime() error {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		// Start may be called twice.
		if err := p.registry.Register(c); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			return err
		}
	}
	return nil
}

// build returns the program's version and commit as recorded by the go command.
func build() (version, revision string) {
	version, revision, _ = commandline.Build()
	return cmp.Or(version, "unknown"), cmp.Or(revision, "unknown")
}

var _ prometheus.Gatherer = (*Process)(nil)
