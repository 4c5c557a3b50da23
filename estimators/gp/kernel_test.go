package gp

import (
	"errors"
	"math"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
)

func TestValidate(t *testing.T) {
	if err := someKernel().Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Kernel){
		"c1":              func(k *Kernel) { k.C1 = -1 },
		"c2":              func(k *Kernel) { k.C2 = math.NaN() },
		"lengthscale":     func(k *Kernel) { k.Hyper.Base = []float64{0} },
		"output scale":    func(k *Kernel) { k.OutputScale = math.Inf(1) },
		"fisher variance": func(k *Kernel) { k.FisherVariance = -0.1 },
		"noise":           func(k *Kernel) { k.Noise = 0 },
	} {
		k := someKernel()
		spoil(&k)
		var e *HyperparameterError
		if err := k.Validate(); !errors.As(err, &e) || e.Name != name {
			t.Errorf("%s out of range: %v", name, err)
		}
	}
}

// Each thing that numbers can do to a fit comes back as an error that says so.
func TestBadNumbers(t *testing.T) {
	good := newBatch(seeded(t, 5), 30, 2, 2)
	for name, c := range map[string]struct {
		spoil func(x *batch, k *Kernel)
		want  any
	}{
		"NaN feature":       {func(x *batch, _ *Kernel) { x.features[7] = math.NaN() }, new(*NotFiniteError)},
		"infinite target":   {func(x *batch, _ *Kernel) { x.targets[3] = math.Inf(1) }, new(*NotFiniteError)},
		"NaN singular":      {func(x *batch, _ *Kernel) { x.fisher[0] = math.NaN() }, new(*NotFiniteError)},
		"constant features": {func(x *batch, _ *Kernel) { clear(x.features) }, new(*statekernel.ConstantFeaturesError)},
		"negative noise":    {func(_ *batch, k *Kernel) { k.Noise = -1 }, new(*HyperparameterError)},
		"vanishing noise":   {func(_ *batch, k *Kernel) { k.Noise = 1e-20 }, new(*cholesky.NotPositiveDefiniteError)},
		"overflow": {func(_ *batch, k *Kernel) { k.OutputScale = 1e300 },
			new(*cholesky.NotPositiveDefiniteError)},
	} {
		t.Run(name, func(t *testing.T) {
			x, k := good, someKernel()
			x.features, x.fisher = append([]float64{}, x.features...), append([]float64{}, x.fisher...)
			x.targets = append([]float64{}, x.targets...)
			c.spoil(&x, &k)
			backends(t, func(t *testing.T, s *compute.Scope) {
				p, err := Direct{}.Fit(s, k, x.upload(s))
				if err == nil || p != nil || !errors.As(err, c.want) {
					t.Errorf("got %v, %v; want %T", p, err, c.want)
				}
			})
		})
	}
}
