package observe

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Run observes the iterations of one run on a learner. A nil *Run observes nothing.
type Run struct {
	learner *Learner
	name    string
	epoch   uint64
	at      atomic.Pointer[uint64] // the iteration in progress, or the last one completed; nil if not known yet
}

// Begin records that the learner has a run until [Learner.End]. Its iteration is not known yet.
func (l *Learner) Begin(name, task, algorithm, estimator string) *Run {
	l.RunInfo.Reset()
	l.RunInfo.WithLabelValues(name, task, algorithm, estimator).Set(1)
	for _, g := range []prometheus.Gauge{l.ReturnMean, l.EpisodeLength, l.KL, l.CGIterations} {
		g.Set(math.NaN()) // until the first iteration
	}
	return &Run{learner: l, name: name}
}

// End records that the run has ended. No actors are useful any more: an autoscaler may remove them all.
func (l *Learner) End() {
	l.Idle("no run at present")
	l.RunInfo.Reset()
	for _, g := range []prometheus.Gauge{l.Connected, l.UsefulActors, l.ActorsSending} {
		g.Set(0)
	}
}

// At records the run's epoch, completed iterations, and planned iterations, 0 if unknown.
func (r *Run) At(epoch, iteration, planned uint64) {
	r.epoch = epoch
	r.at.Store(&iteration)
	r.learner.Epoch.Set(float64(epoch))
	r.learner.Iteration.Set(float64(iteration))
	r.learner.IterationsPlanned.Set(float64(planned))
	if planned == 0 {
		r.learner.IterationsPlanned.Set(math.NaN())
	}
}

// Logger returns a logger whose lines carry the run and its current iteration.
func (r *Run) Logger(log *slog.Logger) *slog.Logger {
	return RunLogger(log, r.name, func() (uint64, bool) {
		if at := r.at.Load(); at != nil {
			return *at, true
		}
		return 0, false
	})
}

// Iteration records that an iteration begins, whose tickets name that batch, and returns a context with its trace; end,
// called with the iteration's error, ends it.
func (r *Run) Iteration(ctx context.Context, number, batch uint64) (_ context.Context, end func(*error)) {
	if r == nil {
		return ctx, nothing
	}
	r.at.Store(&number)
	if r.learner.tracer == nil {
		return ctx, nothing
	}
	ctx, span := r.learner.tracer.Start(withRoot(ctx, rootOf(r.name, r.epoch, batch)), "iteration",
		trace.WithNewRoot(), trace.WithAttributes(
			append(batchAttributes(r.name, batch), attribute.Int64("dbqpg.iteration", int64(number)))...))
	return ctx, func(err *error) { finish(span, err) }
}

// Stages returns a function to be called with the duration of each stage of an update; nil for a nil Run.
func (r *Run) Stages(ctx context.Context) func(stage string, took time.Duration) {
	if r == nil {
		return nil
	}
	parent := trace.SpanFromContext(ctx)
	return func(stage string, took time.Duration) {
		r.learner.Stage.WithLabelValues(stage).Observe(took.Seconds())
		if !parent.IsRecording() {
			return
		}
		now := time.Now()
		_, span := parent.TracerProvider().Tracer(tracerName).Start(ctx, stage, trace.WithTimestamp(now.Add(-took)))
		span.End(trace.WithTimestamp(now))
	}
}

// Commit records that an iteration is being committed, until end is called with the error.
func (r *Run) Commit(ctx context.Context) (end func(*error)) {
	if r == nil {
		return nothing
	}
	start := time.Now()
	_, endSpan := Span(ctx, "checkpoint")
	return func(err *error) {
		if err == nil || *err == nil {
			r.learner.CheckpointTime.Observe(time.Since(start).Seconds())
		}
		endSpan(err)
	}
}

func batchAttributes(run string, batch uint64) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("dbqpg.run", run), attribute.Int64("dbqpg.batch", int64(batch))}
}
