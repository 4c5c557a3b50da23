package session

import (
	"math"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// reporter sets the metrics for Prometheus from counts made elsewhere.
type reporter struct {
	*observe.Learner
	directory *runs.Run
	backend   compute.Backend

	steps, episodes uint64 // of the run, as counted so far
}

// newReporter returns a reporter of a run that continues from these counters.
func newReporter(metrics *observe.Learner, from runs.Counters, directory *runs.Run, backend compute.Backend) *reporter {
	return &reporter{metrics, directory, backend, from.Steps, from.Episodes}
}

// iteration counts a committed iteration. Readers of the metrics see all of it or none.
func (r *reporter) iteration(row runs.Row, stats collect.Stats) {
	r.Update(func() {
		r.progress(row)
		r.collected(stats)
	})
}

// progress records the run's progress.
func (r *reporter) progress(row runs.Row) {
	r.Iteration.Set(float64(row.Iteration + 1))
	r.Iterations.Inc()
	r.Steps.Add(float64(row.Steps - r.steps))
	r.Episodes.WithLabelValues(observe.Accepted).Add(float64(row.Episodes - r.episodes))
	r.steps, r.episodes = row.Steps, row.Episodes
	r.Sampling.Observe(row.SecondsSampling)
	r.Updating.Observe(row.SecondsUpdating)
	if !math.IsNaN(row.ReturnMean) { // an episode ended in the batch
		r.ReturnMean.Set(row.ReturnMean)
		r.EpisodeLength.Set(row.LengthMean)
	}
	r.KL.Set(row.KL)
	r.CGIterations.Set(row.CGIterations)
	r.CheckpointBytes.Set(float64(r.directory.CheckpointSize()))
	if gpu, ok := r.backend.(interface{ PeakBytes() int64 }); ok {
		r.DevicePeakMemory.Set(float64(gpu.PeakBytes()))
	}
}

// collected records the statistics of a batch.
func (r *reporter) collected(stats collect.Stats) {
	r.Episodes.WithLabelValues(observe.Duplicate).Add(float64(stats.Duplicate))
	r.Episodes.WithLabelValues(observe.Stale).Add(float64(stats.Stale))
	r.Episodes.WithLabelValues(observe.Rejected).Add(float64(stats.Rejected))
	r.StepsWasted.Add(float64(stats.Wasted))
	r.ReceivedBytes.Add(float64(stats.Bytes))
	r.RefusedMessages.Add(float64(stats.Refused))
	r.ActorsSending.Set(float64(stats.Actors))
}

// others returns a function that sets the metrics that change within an iteration.
func (r *reporter) others(conn *bus.Conn, collector *collect.Collector, server *Bus) func() {
	dropped, slow := observe.NewTotal(r.DroppedMessages), observe.NewTotal(r.SlowConsumers)
	lapsed, own := observe.NewTotal(r.LeasesLapsed), observe.NewTotal(r.TicketsPlayed)
	return func() {
		dropped.Set(float64(conn.Dropped()))
		slow.Set(float64(server.slowConsumers()))
		status := collector.Status()
		r.UsefulActors.Set(float64(status.Useful))
		r.ActorsShutOut.Set(float64(status.ShutOut))
		lapsed.Set(float64(status.Lapsed))
		own.Set(float64(status.Own))
		r.SetConnected(conn.Connected())
	}
}

// watch shows how much of the batch has been collected, until the returned function is
// called.
func watch(collector *collect.Collector, p *runs.Progress) (stop func()) {
	const interval = 200 * time.Millisecond
	ticker, done := time.NewTicker(interval), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-ticker.C:
				if s := collector.Status(); s.Want > 0 {
					p.Sampling(s.Steps, s.Want)
				}
			case <-done:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(done)
		watching.Wait()
	}
}
