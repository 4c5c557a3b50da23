package gp

import (
	"errors"
	"math"
	"testing"

	_ "go4.org/unsafe/assume-no-moving-gc"
	"gorgonia.org/gorgonia"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// An independent oracle for the base kernels: gorgonia differentiates the textbook
// formula.
func TestBaseAgainstAutodiff(t *testing.T) {
	formulas := map[string]struct {
		base    Base
		formula func(u *gorgonia.Node) *gorgonia.Node // of u = r/l
	}{
		"RBF": {RBF, func(u *gorgonia.Node) *gorgonia.Node {
			half := gorgonia.NewConstant(0.5)
			return op(gorgonia.Exp(op(gorgonia.Neg(op(gorgonia.Mul(half, op(gorgonia.Square(u))))))))
		}},
		"Matern52": {Matern52, func(u *gorgonia.Node) *gorgonia.Node {
			s := op(gorgonia.Mul(gorgonia.NewConstant(math.Sqrt(5)), u))
			third := op(gorgonia.Mul(gorgonia.NewConstant(1.0/3), op(gorgonia.Square(s))))
			polynomial := op(gorgonia.Add(op(gorgonia.Add(gorgonia.NewConstant(1.0), s)), third))
			return op(gorgonia.Mul(polynomial, op(gorgonia.Exp(op(gorgonia.Neg(s))))))
		}},
	}
	for name, f := range formulas {
		t.Run(name, func(t *testing.T) {
			for _, l := range []float64{0.05, 0.55, 3} {
				for _, r := range []float64{1e-3, 0.015, 0.3, 1.9} {
					wantValue, wantGradient := autodiff(t, f.formula, r, l)
					value, gradient := f.base(r, l)
					if math.Abs(value-wantValue) > 1e-14 || math.Abs(gradient-wantGradient) > 1e-12*(1+math.Abs(wantGradient)) {
						t.Errorf("r = %g, l = %g: %g, %g; by autodiff %g, %g", r, l, value, gradient, wantValue, wantGradient)
					}
				}
				if value, gradient := f.base(0, l); value != 1 || gradient != 0 {
					t.Errorf("at distance 0, l = %g: %g, %g; want 1, 0", l, value, gradient)
				}
			}
		})
	}
}

// autodiff evaluates the formula at r/l and its derivative in l on a new graph.
func autodiff(t *testing.T, formula func(u *gorgonia.Node) *gorgonia.Node, r, l float64) (value, gradient float64) {
	t.Helper()
	graph := gorgonia.NewGraph()
	length := gorgonia.NewScalar(graph, gorgonia.Float64, gorgonia.WithName("l"))
	distance := gorgonia.NewScalar(graph, gorgonia.Float64, gorgonia.WithName("r"))
	k := formula(op(gorgonia.Div(distance, length)))
	gradients, err := gorgonia.Grad(k, length)
	if err != nil {
		t.Fatal(err)
	}
	for node, x := range map[*gorgonia.Node]float64{length: l, distance: r} {
		if err := gorgonia.Let(node, x); err != nil {
			t.Fatal(err)
		}
	}
	machine := gorgonia.NewTapeMachine(graph)
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		t.Fatal(err)
	}
	return k.Value().Data().(float64), gradients[0].Value().Data().(float64)
}

// op panics on the error of a graph that this file builds wrongly.
func op(n *gorgonia.Node, err error) *gorgonia.Node {
	if err != nil {
		panic(err)
	}
	return n
}

func TestValidate(t *testing.T) {
	if err := someKernel().Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Kernel){
		"c1":              func(k *Kernel) { k.C1 = -1 },
		"c2":              func(k *Kernel) { k.C2 = math.NaN() },
		"lengthscale":     func(k *Kernel) { k.Lengthscale = 0 },
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
		"constant features": {func(x *batch, _ *Kernel) { clear(x.features) }, new(*ConstantFeaturesError)},
		"negative noise":    {func(_ *batch, k *Kernel) { k.Noise = -1 }, new(*HyperparameterError)},
		"vanishing noise":   {func(_ *batch, k *Kernel) { k.Noise = 1e-20 }, new(*NotPositiveDefiniteError)},
		"overflow":          {func(_ *batch, k *Kernel) { k.OutputScale = 1e300 }, new(*NotPositiveDefiniteError)},
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
