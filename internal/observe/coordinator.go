package observe

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Coordinator contains the metrics of a coordinator node.
type Coordinator struct {
	*Process

	Leader        prometheus.Gauge
	LeaderKnown   prometheus.Gauge
	Term          prometheus.Gauge
	CommitIndex   prometheus.Gauge
	AppliedIndex  prometheus.Gauge
	Runs          *prometheus.GaugeVec // state
	Learners      prometheus.Gauge
	Actors        prometheus.Gauge
	LeaseExpiries prometheus.Counter
	Requests      *prometheus.HistogramVec // route, code
}

// NewCoordinator returns a node's metrics, all zero. Set the gauges in the function given to [Process.Watch].
func NewCoordinator() *Coordinator {
	c := new(Coordinator)
	c.Process = newProcess("coordinator", c.table())
	return c
}

func (c *Coordinator) table() []metric {
	return []metric{
		{"dbqpg_coordinator_leader", gauge(&c.Leader), "1 on the node that leads."},
		{"dbqpg_coordinator_leader_known", gauge(&c.LeaderKnown), "1 while the node knows a leader, possibly itself."},
		{"dbqpg_coordinator_raft_term", gauge(&c.Term), "The node's raft term."},
		{"dbqpg_coordinator_raft_commit_index", gauge(&c.CommitIndex),
			"Index of the last log entry that is known to be committed."},
		{"dbqpg_coordinator_raft_applied_index", gauge(&c.AppliedIndex),
			"Index of the last log entry that the node has applied."},
		{"dbqpg_coordinator_runs", gauges(&c.Runs, "state"), "Runs by state, as known to this node."},
		{"dbqpg_coordinator_learners", gauge(&c.Learners),
			"Learners heard of recently; 0 on other nodes than the leader."},
		{"dbqpg_coordinator_actors", gauge(&c.Actors),
			"Actors of these learners; 0 on other nodes than the leader."},
		{"dbqpg_coordinator_lease_expiries_total", counter(&c.LeaseExpiries),
			"Leases that expired, and whose runs were taken, while this node led."},
		{"dbqpg_coordinator_request_seconds", histograms(&c.Requests, ofRequests, "route", "code"),
			"Requests by registered route and HTTP status."},
	}
}

// Request counts a request that began at start. route must be a registered route, not the client's text.
func (c *Coordinator) Request(route string, code int, start time.Time) {
	c.Requests.WithLabelValues(route, strconv.Itoa(code)).Observe(time.Since(start).Seconds())
}

// Count returns a handler that counts its requests under the pattern by which next, an [http.ServeMux], finds their
// handlers, or "unknown" if it finds none. next must be the mux itself: what hands it a copy of the request hides the
// pattern.
func (c *Coordinator) Count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, recorder := time.Now(), &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		defer func() {
			route := r.Pattern // set by the mux within next
			if route == "" {
				route = "unknown"
			}
			c.Request(route, recorder.code, start)
		}()
		next.ServeHTTP(recorder, r)
	})
}

// statusRecorder records a response's status.
type statusRecorder struct {
	http.ResponseWriter
	code  int
	wrote bool
}

// WriteHeader implements [http.ResponseWriter].
func (r *statusRecorder) WriteHeader(code int) {
	if !r.wrote {
		r.code, r.wrote = code, code >= 200 // 1xx statuses are informational
	}
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap lets [http.ResponseController] flush.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
