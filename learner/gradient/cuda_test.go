//go:build gpu

package gradient

import (
	"os"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/compute/cuda"
	"github.com/dbqpg/dbqpg/internal/config"
)

// agreement is how far an answer may be from the processor's, relative to its norm. What
// conjugate gradients estimate from random probes hangs on rounding: on the processor
// alone, another order of summation moves the features' gradient by 1e-8 and the standard
// error by 3e-5.
func agreement(name string, o Options) float64 {
	switch {
	case o.Solver == config.ConjugateGradient && name == "mll_grad_feature":
		return 1e-7
	case o.Solver == config.ConjugateGradient && name == "mll_std_err":
		return 1e-3
	}
	return 1e-9
}

// Everything that the golden files ask for is the same on a GPU as on the processor, and
// the same bits when repeated, by either solver and either Fisher matrix. The processor's
// backend is opaque, for it then ends conjugate gradients where a distant device does. The
// emulator takes minutes for all, and runs the first alone unless CUDA_EMULATOR_GOLDEN is "all".
func TestGoldenOnGPU(t *testing.T) {
	first := os.Getenv("CUDA_EMULATOR") != "" && os.Getenv("CUDA_EMULATOR_GOLDEN") != "all"
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	before := b.Memory().InUse
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		for _, c := range []struct {
			name    string
			options Options
		}{
			{"direct", Options{}},
			{"cg", Options{Solver: config.ConjugateGradient}},
			{"analytic", Options{Fisher: config.Analytic}},
			{"randomized", Options{Fisher: config.Analytic, Covariance: config.Randomized, Seed: 1}},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				if first && (name != "hopper_gae" || c.name != "direct") {
					t.Skip("minutes on the emulator: make cuda-golden runs it")
				}
				arrays := golden(t, name)
				want, got := answer(t, computetest.Opaque(cpu.New(2)), arrays, c.options),
					answer(t, b, arrays, c.options)
				for _, d := range Compare(got, want) {
					t.Logf("%-30s relative difference %.1e", d.Name, d.Relative)
					if !(d.Relative <= agreement(d.Name, c.options)) {
						t.Errorf("%s: relative difference %.2g to the processor's", d.Name, d.Relative)
					}
				}
				for _, d := range Compare(answer(t, b, arrays, c.options), got) {
					if d.Relative != 0 {
						t.Errorf("%s: other bits when repeated, by %.2g", d.Name, d.Relative)
					}
				}
				if held := b.Memory().InUse - before; held != 0 {
					t.Errorf("%d bytes were not released", held)
				}
			})
		}
	}
}
