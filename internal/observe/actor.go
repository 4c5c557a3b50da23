package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Actor contains the metrics of an actor, either a process or local to a learner.
type Actor struct {
	*Process

	RunInfo       *prometheus.GaugeVec // run
	Runs          prometheus.Gauge
	RunsRefused   prometheus.Gauge
	Slots         prometheus.Gauge
	Episodes      *prometheus.CounterVec // outcome
	Steps         prometheus.Counter
	Playing       prometheus.Histogram
	Waiting       prometheus.Counter
	SentBytes     prometheus.Counter
	UploadRetries prometheus.Counter
}

// NewActor returns an actor's metrics, all zero.
func NewActor() *Actor {
	a := new(Actor)
	a.Process = newProcess("actor", a.table())
	return a
}

func (a *Actor) table() []metric {
	return []metric{
		{"dbqpg_actor_run_info", gauges(&a.RunInfo, "run"),
			"1, with the value of --run in the label. Actor processes only."},
		{"dbqpg_actor_runs", gauge(&a.Runs), "Runs on the server that have a learner and may be played for."},
		{"dbqpg_actor_runs_refused", gauge(&a.RunsRefused), "Runs whose learner refuses this actor; the log says why."},
		{"dbqpg_actor_slots", gauge(&a.Slots), "Episodes that can be played at the same time."},
		{"dbqpg_actor_episodes_total", counters(&a.Episodes, "outcome", Accepted, Stale, Rejected, Failed),
			"Episodes by outcome: accepted, no longer wanted, invalid, or aborted by an error."},
		{"dbqpg_actor_steps_total", counter(&a.Steps), "Environment steps played, including wasted ones."},
		{"dbqpg_actor_playing_seconds", histogram(&a.Playing, ofStages), "Time to play an episode."},
		{"dbqpg_actor_waiting_seconds_total", counter(&a.Waiting),
			"Time without a ticket, summed over the slots and as many that upload."},
		{"dbqpg_actor_sent_bytes_total", counter(&a.SentBytes),
			"Bytes of encoded episodes sent, including repetitions."},
		{"dbqpg_actor_upload_retries_total", counter(&a.UploadRetries),
			"Uploads that had to be restarted for lack of an answer."},
	}
}
