package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Actor is an actor's metrics, be it a process or local to a learner.
type Actor struct {
	*Process

	RunInfo       *prometheus.GaugeVec // run
	Runs          prometheus.Gauge
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
		{"dbqpg_actor_run_info", gauges(&a.RunInfo, open("run")), "1, with the runs to play for in the label, as --run has them; all where it has none. An actor process only."},
		{"dbqpg_actor_runs", gauge(&a.Runs), "Runs on the server that have a learner and may be played for."},
		{"dbqpg_actor_slots", gauge(&a.Slots), "Episodes that can be played at the same time."},
		{"dbqpg_actor_episodes_total", counters(&a.Episodes, one("outcome", Accepted, Stale, Rejected, Failed)),
			"Episodes by what became of them: taken by the learner, no longer wanted, refused as wrong, or broken off by an error."},
		{"dbqpg_actor_steps_total", counter(&a.Steps), "Environment steps played, those in vain included."},
		{"dbqpg_actor_playing_seconds", histogram(&a.Playing, ofStages), "Playing an episode to its end."},
		{"dbqpg_actor_waiting_seconds_total", counter(&a.Waiting), "Time that slots have waited because there was no ticket or no learner, summed over the slots (twice as many as can play at the same time)."},
		{"dbqpg_actor_sent_bytes_total", counter(&a.SentBytes), "Encoded episodes sent, each as often as it was."},
		{"dbqpg_actor_upload_retries_total", counter(&a.UploadRetries), "Uploads that had to begin again because there was no answer."},
	}
}
