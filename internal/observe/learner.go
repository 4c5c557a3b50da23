package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of an episode. On an actor, a failed episode was not played to its end.
const (
	Accepted  = "accepted"
	Duplicate = "duplicate"
	Stale     = "stale"
	Rejected  = "rejected"
	Failed    = "failed"
)

// Learner contains the metrics of a learner. Actor counts its local actors.
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
	ActorsShutOut   prometheus.Gauge
	LeasesLapsed    prometheus.Counter
	TicketsPlayed   prometheus.Counter
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
		{"dbqpg_learner_run_info", gauges(&l.RunInfo, "run", "task", "algorithm", "estimator"),
			"1, with the current run in the labels; absent between runs."},
		{"dbqpg_learner_epoch", gauge(&l.Epoch), "The current run's epoch: how often it has been taken."},
		{"dbqpg_learner_iteration", gauge(&l.Iteration),
			"Completed iterations of the current run."},
		{"dbqpg_learner_iterations_planned", gauge(&l.IterationsPlanned),
			"Planned iterations of the current run; NaN with --steps."},
		{"dbqpg_learner_iterations_total", counter(&l.Iterations), "Iterations completed by this process."},
		{"dbqpg_learner_steps_total", counter(&l.Steps), "Environment steps in this process's batches."},
		{"dbqpg_learner_episodes_total", counters(&l.Episodes, "outcome", Accepted, Duplicate, Stale, Rejected),
			"Episodes by outcome: accepted into a batch, sent again, sent too late, or invalid."},
		{"dbqpg_learner_steps_wasted_total", counter(&l.StepsWasted),
			"Environment steps received in vain: beyond the batch. Actors count all that they play."},

		{"dbqpg_learner_sampling_seconds", histogram(&l.Sampling, ofIterations),
			"Time from a policy's publication to its complete batch."},
		{"dbqpg_learner_updating_seconds", histogram(&l.Updating, ofIterations),
			"Time from a complete batch to the new policy."},
		{"dbqpg_learner_stage_seconds", histograms(&l.Stage, ofStages, "stage"),
			"Time of each of the update's stages, by their names in package train."},
		{"dbqpg_learner_checkpoint_seconds", histogram(&l.CheckpointTime, ofStages),
			"Time to commit an iteration: its row and its checkpoint, on disk."},
		{"dbqpg_learner_checkpoint_bytes", gauge(&l.CheckpointBytes), "Size of the newest checkpoint."},
		{"dbqpg_learner_device_memory_peak_bytes", gauge(&l.DevicePeakMemory),
			"Peak GPU memory of this process; 0 without a GPU."},

		{"dbqpg_learner_return_mean", gauge(&l.ReturnMean),
			"return_mean of progress.csv, of the last batch in which an episode ended."},
		{"dbqpg_learner_episode_length_mean", gauge(&l.EpisodeLength), "Mean number of steps of these episodes."},
		{"dbqpg_learner_kl_divergence", gauge(&l.KL),
			"kl of progress.csv, of the last batch."},
		{"dbqpg_learner_cg_iterations", gauge(&l.CGIterations),
			"Conjugate-gradient iterations of the last update; NaN with --algorithm vanilla."},

		{"dbqpg_learner_actors", gauge(&l.ActorsSending), "Processes that sent episodes for the last batch."},
		{"dbqpg_learner_useful_actors", gauge(&l.UsefulActors),
			"Concurrent episodes that are useful now; 0 between batches."},
		{"dbqpg_learner_actors_shut_out", gauge(&l.ActorsShutOut),
			"Actors and keys that the current run refuses because they sent false results."},
		{"dbqpg_learner_leases_lapsed_total", counter(&l.LeasesLapsed), "Tickets that actors have not played in time."},
		{"dbqpg_learner_tickets_played_total", counter(&l.TicketsPlayed),
			"Tickets that the learner has played itself, for want of an actor's result."},
		{"dbqpg_learner_received_bytes_total", counter(&l.ReceivedBytes), "Encoded episodes received."},
		{"dbqpg_learner_refused_messages_total", counter(&l.RefusedMessages), "Invalid messages received."},
		{"dbqpg_learner_dropped_messages_total", counter(&l.DroppedMessages),
			"Messages lost because this process was too slow to receive them."},
		{"dbqpg_learner_nats_slow_consumers_total", counter(&l.SlowConsumers),
			"Connections that the embedded NATS server closed as too slow; 0 with --nats."},
	}
}
