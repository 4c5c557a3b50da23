package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metric is a row of a process's table.
type metric struct {
	name string
	instrument
	help string
}

// instrument is a kind of metric, bound to its field.
type instrument struct {
	kind   string // Prometheus's name for it
	labels []label
	create func(name, help string) prometheus.Collector // sets the field
}

// label is a dimension of a metric.
type label struct {
	name   string
	values []string // all values; nil if the metric's help describes them
}

// open returns a label whose values the metric's help describes.
func open(name string) label { return label{name: name} }

// one returns a label with these values, all of which exist from the start.
func one(name string, values ...string) label { return label{name, values} }

func names(labels []label) []string {
	var names []string
	for _, l := range labels {
		names = append(names, l.name)
	}
	return names
}

// known calls touch with each value if there is one label whose values are all known, so that none is missing
// before the first event.
func known(labels []label, touch func(...string)) {
	if len(labels) == 1 {
		for _, value := range labels[0].values {
			touch(value)
		}
	}
}

func gauge(field *prometheus.Gauge) instrument {
	return instrument{kind: "gauge", create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		return *field
	}}
}

func gauges(field **prometheus.GaugeVec, labels ...label) instrument {
	return instrument{kind: "gauge", labels: labels, create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, names(labels))
		known(labels, func(values ...string) { (*field).WithLabelValues(values...) })
		return *field
	}}
}

func counter(field *prometheus.Counter) instrument {
	return instrument{kind: "counter", create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		return *field
	}}
}

func counters(field **prometheus.CounterVec, labels ...label) instrument {
	return instrument{kind: "counter", labels: labels, create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names(labels))
		known(labels, func(values ...string) { (*field).WithLabelValues(values...) })
		return *field
	}}
}

func histogram(field *prometheus.Histogram, buckets []float64) instrument {
	return instrument{kind: "histogram", create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		return *field
	}}
}

func histograms(field **prometheus.HistogramVec, buckets []float64, labels ...label) instrument {
	return instrument{kind: "histogram", labels: labels, create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, names(labels))
		known(labels, func(values ...string) { (*field).WithLabelValues(values...) })
		return *field
	}}
}

// Buckets in seconds.
var (
	ofIterations = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500} // and their parts' waiting
	ofStages     = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25}
	ofRequests   = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}
)

// Total is a counter that follows a count kept elsewhere, which restarts at 0 with its owner. It is not for
// concurrent use.
type Total struct {
	counter prometheus.Counter
	seen    float64
}

// NewTotal returns a Total that adds to a counter.
func NewTotal(c prometheus.Counter) *Total { return &Total{counter: c} }

// Set adds the count's growth since the last call.
func (t *Total) Set(count float64) {
	if count > t.seen {
		t.counter.Add(count - t.seen)
	}
	t.seen = count
}
