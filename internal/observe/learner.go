package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// What became of an episode. On an actor, an episode that fails was not played to its end.
const (
	Accepted  = "accepted"
	Duplicate = "duplicate"
	Stale     = "stale"
	Rejected  = "rejected"
	Failed    = "failed"
)

// Learner is a learner's metrics. Its local actors count in Actor.
type Learner struct {
	*Process
	Actor *Actor

	RunInfo           *prometheus.GaugeVec // run, task, algorithm, estimator
	Epoch             prometheus.Gauge
	Iteration         prometheus.Gauge
	IterationsPlanned prometheus.Gauge
	Iterations        prometheus.Counter
	Steps             prometheus.Counter
	Episodes          *prometheus.CounterVec // outcome
	StepsWasted       prometheus.Counter

	Sampling         prometheus.Histogram
	Updating         prometheus.Histogram
	Stage            *prometheus.HistogramVec // stage
	CheckpointTime   prometheus.Histogram
	CheckpointBytes  prometheus.Gauge
	DevicePeakMemory prometheus.Gauge

	ReturnMean    prometheus.Gauge
	EpisodeLength prometheus.Gauge
	KL            prometheus.Gauge
	CGIterations  prometheus.Gauge

	ActorsSending   prometheus.Gauge
	UsefulActors    prometheus.Gauge
	ReceivedBytes   prometheus.Counter
	RefusedMessages prometheus.Counter
	DroppedMessages prometheus.Counter
	SlowConsumers   prometheus.Counter
}

// NewLearner returns a learner's metrics, all zero.
func NewLearner() *Learner {
	l := &Learner{Actor: new(Actor)}
	l.Process = newProcess("learner", l.table(), l.Actor.table())
	l.Actor.Process = l.Process
	return l
}

func (l *Learner) table() []metric {
	return []metric{
		{"dbqpg_learner_run_info", gauges(&l.RunInfo, open("run"), open("task"), open("algorithm"), open("estimator")),
			"1, with the present run in the labels: one run at a time, none between two."},
		{"dbqpg_learner_epoch", gauge(&l.Epoch), "The learner's epoch in the present run: how often a learner took it over."},
		{"dbqpg_learner_iteration", gauge(&l.Iteration), "Iterations of the present run that are done, those before it was resumed included."},
		{"dbqpg_learner_iterations_planned", gauge(&l.IterationsPlanned), "Iterations of the present run in all."},
		{"dbqpg_learner_iterations_total", counter(&l.Iterations), "Iterations that this process has done."},
		{"dbqpg_learner_steps_total", counter(&l.Steps), "Environment steps in this process's batches."},
		{"dbqpg_learner_episodes_total", counters(&l.Episodes, one("outcome", Accepted, Duplicate, Stale, Rejected)),
			"Episodes by what became of them: accepted into a batch, sent though they were there, sent too late, or wrong."},
		{"dbqpg_learner_steps_wasted_total", counter(&l.StepsWasted), "Environment steps played in vain: beyond the batch, a second time, or abandoned."},

		{"dbqpg_learner_sampling_seconds", histogram(&l.Sampling, ofIterations), "From a policy's publication to its complete batch."},
		{"dbqpg_learner_updating_seconds", histogram(&l.Updating, ofIterations), "From a complete batch to the new policy."},
		{"dbqpg_learner_stage_seconds", histograms(&l.Stage, ofStages, open("stage")),
			"The update's stages, by their names in package train (eight)."},
		{"dbqpg_learner_checkpoint_seconds", histogram(&l.CheckpointTime, ofStages), "Committing an iteration: its row and its checkpoint, on the disk."},
		{"dbqpg_learner_checkpoint_bytes", gauge(&l.CheckpointBytes), "Size of the newest checkpoint."},
		{"dbqpg_learner_device_memory_peak_bytes", gauge(&l.DevicePeakMemory), "The most memory that this process has had of its GPU; 0 without one."},

		{"dbqpg_learner_return_mean", gauge(&l.ReturnMean), "Mean undiscounted return of the last batch's episodes (return_mean of progress.csv)."},
		{"dbqpg_learner_episode_length_mean", gauge(&l.EpisodeLength), "Mean number of steps of the last batch's episodes."},
		{"dbqpg_learner_kl_divergence", gauge(&l.KL), "Mean divergence of the new policy from the old over the last batch, in natural units (kl of progress.csv)."},
		{"dbqpg_learner_cg_iterations", gauge(&l.CGIterations), "Conjugate-gradient iterations for the last natural gradient; NaN with --algorithm vanilla."},

		{"dbqpg_learner_actors", gauge(&l.ActorsSending), "Processes that sent episodes for the last batch."},
		{"dbqpg_learner_useful_actors", gauge(&l.UsefulActors),
			"How many episodes at once are useful now, whoever plays them; 0 between batches. More actors than that only wait."},
		{"dbqpg_learner_received_bytes_total", counter(&l.ReceivedBytes), "Encoded episodes received."},
		{"dbqpg_learner_refused_messages_total", counter(&l.RefusedMessages), "Messages that were wrong."},
		{"dbqpg_learner_dropped_messages_total", counter(&l.DroppedMessages), "Messages lost because this process was too slow to take them in."},
		{"dbqpg_learner_nats_slow_consumers_total", counter(&l.SlowConsumers), "Connections that the NATS server in this process has cut because they were too slow; 0 with --nats."},
	}
}
