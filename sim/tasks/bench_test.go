package tasks

import (
	"slices"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/sim"
)

// BenchmarkStep compares an environment's steps with the bare engine: a loop around mj_step in C, from the same
// state under the same controls, in short turns so that both see the same machine. Metrics, by the median turn:
// steps a second of each, and the environment's share of the bare rate.
func BenchmarkStep(b *testing.B) {
	for _, spec := range sim.Tasks() {
		b.Run(spec.Name, func(b *testing.B) { benchmarkStep(b, spec) })
	}
}

func benchmarkStep(b *testing.B, spec sim.Spec) {
	const turn = 25
	full, bare := open(b, spec.Name), open(b, spec.Name)
	controls := make([]float64, turn*spec.ActionDim)
	observation := make([]float64, spec.ObservationDim)
	rng := streams.New(1)
	for _, e := range []*env{full, bare} {
		if err := e.Reset(streams.New(2), observation); err != nil {
			b.Fatal(err)
		}
	}
	var fullTimes, bareTimes, shares []float64
	for b.Loop() {
		for i := range controls {
			controls[i] = rng.NormFloat64()
		}
		start := time.Now()
		for i := range turn {
			if _, _, err := full.Step(controls[i*spec.ActionDim:(i+1)*spec.ActionDim], observation); err != nil {
				b.Fatal(err)
			}
		}
		middle := time.Now()
		if err := bare.data.Loop(controls, spec.FrameSkip); err != nil {
			b.Fatal(err)
		}
		fullTime, bareTime := middle.Sub(start).Seconds(), time.Since(middle).Seconds()
		fullTimes, bareTimes = append(fullTimes, fullTime), append(bareTimes, bareTime)
		shares = append(shares, bareTime/fullTime)
	}
	b.ReportMetric(0, "ns/op") // an op is a turn of both, which says nothing
	b.ReportMetric(turn/median(fullTimes), "steps/s")
	b.ReportMetric(turn/median(bareTimes), "bare_steps/s")
	b.ReportMetric(median(shares), "of_bare")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
