package train_test

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/config"
)

// Training goes with every base kernel, and each goes its own way, in closed form and by conjugate gradients about the
// same. All of the kernel's hyperparameters learn.
func TestBaseKernels(t *testing.T) {
	ends := map[string][]float64{}
	for _, name := range kernels.Names() {
		t.Run(name, func(t *testing.T) {
			base, err := kernels.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			prepare := func() *config.Settings {
				s := settings(t, "Hopper-v2", config.NPG, config.UAPG)
				s.Batch, s.Rank, s.BaseKernel = 300, 15, name
				return s
			}
			j := trainSerially(t, prepare())
			for _, row := range j.rows {
				for _, complaint := range complaints(prepare(), row) {
					t.Errorf("iteration %d: %s", row.Iteration, complaint)
				}
			}
			first, last := j.states[0].Arrays, j.states[iterations].Arrays
			if got, want := len(last["critic.raw"]), len(base.Hyperparameters())+3; got != want {
				t.Errorf("%d hyperparameters learned, want %d", got, want)
			}
			for i, x := range last["critic.raw"] {
				if x == first["critic.raw"][i] {
					t.Errorf("hyperparameter %d stood still", i)
				}
			}
			for other, end := range ends {
				if slices.Equal(end, last["policy.params"]) {
					t.Errorf("the policy ends where it does with %s", other)
				}
			}
			ends[name] = last["policy.params"]

			s := prepare()
			s.Solver = config.ConjugateGradient
			_, iterative := trainMethod(t, "cg", s)
			length := floats.Distance(last["policy.params"], first["policy.params"], 2)
			if d := floats.Distance(iterative, last["policy.params"], 2) / length; !(d < 0.01) {
				t.Errorf("with --solver cg the policy ends %v of its way from where it ends without", d)
			}
		})
	}
}
