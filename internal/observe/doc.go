// Package observe lets an operator see what a process does: metrics that Prometheus scrapes, whether it is alive and
// ready, log lines that say which run and iteration they belong to, and OpenTelemetry traces.
//
// A process makes one [Learner], [Actor] or [Coordinator], whose fields are its metrics, and starts it:
//
//	metrics := observe.NewLearner()
//	stop, err := metrics.Start(observe.Config{Listen: "127.0.0.1:9464", Log: log})
//	defer stop()
//
// Whatever happens is then counted in the fields, at the pace of episodes and iterations, never of steps. What others
// count already is fetched when Prometheus asks, by the function given to [Process.Watch], which also says whether the
// process is ready. Each kind of process has one table of its metrics, in learner.go, actor.go and coordinator.go:
// registration and the reference, docs/metrics.md, are both made from it. Names follow Prometheus's conventions: the
// prefix dbqpg_ and the process, base units, _total for counters. No label has values that strangers choose.
//
// # Traces
//
// Traces are off unless OTEL_EXPORTER_OTLP_ENDPOINT is set. An iteration is a trace. Its identifier, and that of its
// first span, are a hash of run, epoch and iteration, which an actor knows from any ticket: its spans join the
// learner's trace though nothing of it is sent with the ticket. Sampling by traceidratio decides by the identifier,
// hence alike on both sides.
package observe
