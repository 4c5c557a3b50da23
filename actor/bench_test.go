package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/actor/rollout"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/mujoco"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// BenchmarkSampling compares sampling as a learner sees it (engine, policy, normalisation, tickets, encoding, the
// NATS server, decoding and the ledger) with a bare loop of engine steps in C under the same actions. Metrics: steps a
// second of one slot in the learner's process, and its share of the bare loop's rate, by the clock and by the
// processor time of the whole process; the latter also holds on a machine that is busy otherwise.
func BenchmarkSampling(b *testing.B) {
	for _, spec := range sim.Tasks() {
		b.Run(spec.Name, func(b *testing.B) { benchmarkSampling(b, spec) })
	}
}

func benchmarkSampling(b *testing.B, spec sim.Spec) {
	server := startServer(b, bus.ServerConfig{})
	collector, p := learner(b, server, spec.Name)
	conn, err := server.Connect(bus.ConnConfig{Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error)
	go func() {
		left <- rollout.Run(ctx, rollout.Config{Conn: conn, Run: spec.Name + "/test", Slots: 1, NewEnv: tasks.New, Log: quiet})
	}()
	engine := bareEngine(b, spec)
	var steps int
	var sampling, bare usage
	for b.Loop() {
		start := now()
		batch, err := collector.Collect(deadline(b), p, 2000)
		if err != nil {
			b.Fatal(err)
		}
		middle := now()
		replay(b, engine, batch.Episodes, spec.FrameSkip)
		end := now()
		sampling, bare = sampling.plus(start, middle), bare.plus(middle, end)
		steps += batch.Steps
		p.Iteration++
	}
	cancel()
	if err := <-left; err != nil {
		b.Error(err)
	}
	b.ReportMetric(0, "ns/op") // an op is a batch and its replay, which says nothing
	b.ReportMetric(float64(steps)/sampling.clock.Seconds(), "steps/s")
	b.ReportMetric(bare.clock.Seconds()/sampling.clock.Seconds(), "of_bare")
	b.ReportMetric(bare.processor.Seconds()/sampling.processor.Seconds(), "of_bare_cpu")
}

// bareEngine returns the engine without the task around it.
func bareEngine(b *testing.B, spec sim.Spec) *mujoco.Data {
	mjcf, err := os.ReadFile(filepath.Join("..", "sim", "tasks", "assets", spec.Model))
	if err != nil {
		b.Fatal(err)
	}
	model, err := mujoco.Compile(mjcf)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(model.Close)
	data, err := mujoco.NewData(model)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(data.Close)
	return data
}

// replay steps the bare engine through the episodes' actions.
func replay(b *testing.B, engine *mujoco.Data, episodes []*proto.Episode, frameSkip int) {
	for _, e := range episodes {
		controls := make([]float64, len(e.Actions))
		for i, a := range e.Actions {
			controls[i] = float64(a)
		}
		if err := engine.Reset(nil, nil); err != nil {
			b.Fatal(err)
		}
		if err := engine.Loop(controls, frameSkip); err != nil {
			b.Fatal(err)
		}
	}
}

// usage is time by the clock and by the process's processors.
type usage struct{ clock, processor time.Duration }

// now returns the present time of both.
func now() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return usage{time.Duration(time.Now().UnixNano()), time.Duration(r.Utime.Nano() + r.Stime.Nano())}
}

func (u usage) plus(from, to usage) usage {
	return usage{u.clock + to.clock - from.clock, u.processor + to.processor - from.processor}
}
