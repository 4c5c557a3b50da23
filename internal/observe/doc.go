// Package observe makes processes observable: metrics for Prometheus, health and readiness, log lines with the run and
// iteration they belong to, and OpenTelemetry traces.
//
// A process makes one [Learner], [Actor] or [Coordinator], whose fields are its metrics, and starts it:
//
//	metrics := observe.NewLearner()
//	stop, err := metrics.Start(observe.Config{Listen: "127.0.0.1:9464", Log: log})
//	defer stop()
//
// Events are then counted in the fields, once per episode or iteration, never per step. Counts kept elsewhere are read
// when Prometheus scrapes, by the function given to [Process.Watch], which also reports whether the process is ready.
// Each kind of process has one table of its metrics, in learner.go, actor.go and coordinator.go, from which both their
// registration and the reference, docs/metrics.md, are made. Names follow Prometheus's conventions: the prefix dbqpg_
// and the process, base units, _total for counters. No label has values that clients choose.
//
// # Traces
//
// Traces are off unless OTEL_EXPORTER_OTLP_ENDPOINT is set. An iteration is a trace. Its ID, and that of its root span,
// are hashes of run, epoch and iteration, which an actor knows from any ticket: its spans join the learner's trace
// although the ticket carries no trace context. Sampling by traceidratio depends on the ID alone, so both sides make
// the same decision.
package observe
