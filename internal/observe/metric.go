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
	labels []string
	values []string                                     // of the label, if all are known in advance
	create func(name, help string) prometheus.Collector // sets the field
}

func gauge(field *prometheus.Gauge) instrument {
	return instrument{kind: "gauge", create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		return *field
	}}
}

func gauges(field **prometheus.GaugeVec, labels ...string) instrument {
	return instrument{kind: "gauge", labels: labels, create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		return *field
	}}
}

func counter(field *prometheus.Counter) instrument {
	return instrument{kind: "counter", create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		return *field
	}}
}

// counters returns counters by a label. All of its values exist before the first event.
func counters(field **prometheus.CounterVec, label string, values ...string) instrument {
	labels := []string{label}
	create := func(name, help string) prometheus.Collector {
		*field = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		for _, value := range values {
			(*field).WithLabelValues(value)
		}
		return *field
	}
	return instrument{"counter", labels, values, create}
}

func histogram(field *prometheus.Histogram, buckets []float64) instrument {
	return instrument{kind: "histogram", create: func(name, help string) prometheus.Collector {
		*field = prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		return *field
	}}
}

func histograms(field **prometheus.HistogramVec, buckets []float64, labels ...string) instrument {
	return instrument{kind: "histogram", labels: labels, create: func(name, help string) prometheus.Collector {
		options := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
		*field = prometheus.NewHistogramVec(options, labels)
		return *field
	}}
}

// Buckets in seconds.
var (
	ofIterations = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500} // and their parts' waiting
	ofStages     = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25}
	ofRequests   = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}
)

// Total adds to a counter the growth of a count kept elsewhere, which restarts at 0 with its owner. It is not safe for
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
