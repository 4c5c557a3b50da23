package session

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/learner/rundir"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// counts carries what is counted elsewhere over to the metrics that Prometheus scrapes.
type counts struct {
	*observe.Learner
	directory *rundir.Run
	backend   compute.Backend

	steps, episodes uint64 // of the run, as counted so far
}

// newCounts counts what comes after from.
func newCounts(watched *observe.Learner, from checkpoint.Counters, directory *rundir.Run, backend compute.Backend) *counts {
	return &counts{watched, directory, backend, from.Steps, from.Episodes}
}

// iteration counts an iteration that is committed. Whoever reads the metrics sees it whole.
func (c *counts) iteration(row progress.Row, stats collect.Stats) {
	c.Update(func() {
		c.progress(row)
		c.collected(stats)
	})
}

// progress takes in what the run has come to.
func (c *counts) progress(row progress.Row) {
	c.Iteration.Set(float64(row.Iteration))
	c.Iterations.Inc()
	c.Steps.Add(float64(row.Steps - c.steps))
	c.Episodes.WithLabelValues(observe.Accepted).Add(float64(row.Episodes - c.episodes))
	c.steps, c.episodes = row.Steps, row.Episodes
	c.Sampling.Observe(row.SecondsSampling)
	c.Updating.Observe(row.SecondsUpdating)
	c.ReturnMean.Set(row.ReturnMean)
	c.EpisodeLength.Set(row.LengthMean)
	c.KL.Set(row.KL)
	c.CGIterations.Set(row.CGIterations)
	c.CheckpointBytes.Set(float64(c.directory.CheckpointSize()))
	if gpu, ok := c.backend.(interface{ PeakBytes() int64 }); ok {
		c.DevicePeakMemory.Set(float64(gpu.PeakBytes()))
	}
}

// collected takes in how the collecting went.
func (c *counts) collected(stats collect.Stats) {
	c.Episodes.WithLabelValues(observe.Duplicate).Add(float64(stats.Duplicate))
	c.Episodes.WithLabelValues(observe.Stale).Add(float64(stats.Stale))
	c.Episodes.WithLabelValues(observe.Rejected).Add(float64(stats.Rejected))
	c.StepsWasted.Add(float64(stats.Wasted))
	c.ReceivedBytes.Add(float64(stats.Bytes))
	c.RefusedMessages.Add(float64(stats.Refused))
	c.ActorsSending.Set(float64(stats.Actors))
}

// others returns what fetches the metrics that change within an iteration.
func (c *counts) others(conn *bus.Conn, collector *collect.Collector, server *Bus) func() {
	dropped, slow := observe.NewTotal(c.DroppedMessages), observe.NewTotal(c.SlowConsumers)
	return func() {
		dropped.Set(float64(conn.Dropped()))
		slow.Set(float64(server.slowConsumers()))
		c.UsefulActors.Set(float64(collector.Useful()))
		c.Connected.Set(1)
		if connected(conn) != nil {
			c.Connected.Set(0)
		}
	}
}

// connected returns an error unless there is a connection to the NATS server.
func connected(conn *bus.Conn) error {
	if conn.URL() == "" {
		return errors.New("not connected to the NATS server")
	}
	return nil
}
