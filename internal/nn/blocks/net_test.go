package blocks_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
)

const tolerance = 1e-12

func normals(n int, rng *rand.Rand) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// fixture is a network with parameters, inputs and an output signal on a backend,
// and the same on the host.
type fixture struct {
	backend                 compute.Backend
	scope                   *compute.Scope
	mlp                     nn.MLP
	samples, in, out        int
	params, inputs, signal  []float64
	net                     blocks.Net
	inputBlock, signalBlock compute.Block
}

// each runs test for every backend and several networks, with samples in one
// panel and in several.
func each(t *testing.T, test func(t *testing.T, f fixture)) {
	for _, b := range nntest.Backends() {
		for _, mlp := range []nn.MLP{
			{Sizes: []int{3, 5, 4, 2}}, {Sizes: []int{3, 5, 4, 2}, TanhOutput: true}, {Sizes: []int{4, 2}},
			{Sizes: []int{1, 6, 3}},
		} {
			for _, samples := range []int{1, 1200} {
				rng := rand.New(rand.NewPCG(uint64(samples), uint64(mlp.NumParams())))
				f := fixture{backend: b, scope: compute.NewScope(b), mlp: mlp, samples: samples, in: mlp.Sizes[0],
					out: mlp.Sizes[len(mlp.Sizes)-1]}
				f.params = normals(mlp.NumParams(), rng)
				f.inputs, f.signal = normals(samples*f.in, rng), normals(samples*f.out, rng)
				f.net = blocks.Bind(mlp, f.scope.FromSlice(len(f.params), 1, f.params))
				f.inputBlock = f.scope.FromSlice(samples, f.in, f.inputs)
				f.signalBlock = f.scope.FromSlice(samples, f.out, f.signal)
				test(t, f)
				f.scope.Release()
			}
		}
	}
}

func (f fixture) input(i int) []float64 { return f.inputs[i*f.in : (i+1)*f.in] }

func (f fixture) check(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if d := nntest.Distance(got, want); !(d <= tolerance) {
		t.Errorf("%s, %s, %+v, %d samples: off by %.2g", what, f.backend.Name(), f.mlp, f.samples, d)
	}
}

func TestForwardAgreesWithTwin(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		h := f.net.Forward(f.scope, f.inputBlock)
		var want []float64
		for i := range f.samples {
			want = append(want, nntest.Forward(f.mlp, f.params, f.input(i))...)
		}
		f.check(t, "forward", compute.ToSlice(f.backend, h.Output()), want)
	})
}

func TestJVPAgreesWithJacobian(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		direction := normals(len(f.params), rand.New(rand.NewPCG(1, 1)))
		h := f.net.Forward(f.scope, f.inputBlock)
		moved := f.scope.New(f.samples, f.out)
		along := blocks.Bind(f.mlp, f.scope.FromSlice(len(direction), 1, direction))
		f.backend.Panels(f.samples, func(b compute.Backend, _, lo, hi int) {
			s := compute.NewScope(b)
			defer s.Release()
			compute.Copy(b, moved.RowRange(lo, hi), f.net.JVPRows(s, h.Rows(lo, hi), along))
		})
		var want []float64
		for i := range f.samples {
			for _, row := range nntest.Jacobian(f.mlp, f.params, f.input(i)) {
				sum := 0.0
				for k, v := range direction {
					sum += row[k] * v
				}
				want = append(want, sum)
			}
		}
		f.check(t, "jvp", compute.ToSlice(f.backend, moved), want)
	})
}

// vjpTwin returns J'S, with the Jacobian formed one sample at a time.
func (f fixture) vjpTwin() []float64 {
	want := make([]float64, len(f.params))
	for i := range f.samples {
		for j, row := range nntest.Jacobian(f.mlp, f.params, f.input(i)) {
			for k, v := range row {
				want[k] += v * f.signal[i*f.out+j]
			}
		}
	}
	return want
}

func TestVJPAgreesWithJacobian(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		h := f.net.Forward(f.scope, f.inputBlock)
		gradient := f.scope.New(len(f.params), 1)
		f.net.VJP(f.backend, h, f.signalBlock, gradient)
		f.check(t, "vjp", compute.ToSlice(f.backend, gradient), f.vjpTwin())
	})
}

// The kept signals contain the gradient: D_l'H_{l-1} and the sum of D_l's rows.
func TestBackwardSignalsGiveTheGradient(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		h := f.net.Forward(f.scope, f.inputBlock)
		d := f.net.Backward(f.scope, h, f.signalBlock)
		var got []float64
		for l, layer := range f.mlp.Layers() {
			w, bias := f.scope.New(layer.Out, layer.In), f.scope.New(1, layer.Out)
			f.backend.Gemm(true, false, 1, d[l], h[l], 0, w)
			f.backend.SumRows(bias, d[l])
			got = append(append(got, compute.ToSlice(f.backend, w)...), compute.ToSlice(f.backend, bias)...)
		}
		f.check(t, "signals", got, f.vjpTwin())
		f.check(t, "signal kept", compute.ToSlice(f.backend, f.signalBlock), f.signal)
	})
}

// The twin itself against differences of its value.
func TestTwinAgreesWithFiniteDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	mlp := nn.MLP{Sizes: []int{3, 5, 4, 2}, TanhOutput: true}
	params, input := normals(mlp.NumParams(), rng), normals(3, rng)
	jacobian := nntest.Jacobian(mlp, params, input)
	const step = 1e-6
	for k := range params {
		p := append([]float64(nil), params...)
		p[k] = params[k] + step
		up := nntest.Forward(mlp, p, input)
		p[k] = params[k] - step
		down := nntest.Forward(mlp, p, input)
		for i := range up {
			if got, want := (up[i]-down[i])/(2*step), jacobian[i][k]; math.Abs(got-want) > 1e-9 {
				t.Errorf("output %d, parameter %d: difference quotient %v, derivative %v", i, k, got, want)
			}
		}
	}
}

// The bits of a sum over samples do not depend on the number of workers.
func TestVJPRepeats(t *testing.T) {
	var first []float64
	for _, b := range nntest.Backends()[1:] {
		s := compute.NewScope(b)
		rng := rand.New(rand.NewPCG(4, 4))
		mlp := nn.MLP{Sizes: []int{8, 64, 64, 2}}
		net := blocks.Bind(mlp, s.FromSlice(mlp.NumParams(), 1, mlp.Init(rng)))
		h := net.Forward(s, s.FromSlice(3000, 8, normals(3000*8, rng)))
		gradient := s.New(mlp.NumParams(), 1)
		net.VJP(b, h, s.FromSlice(3000, 2, normals(3000*2, rng)), gradient)
		got := compute.ToSlice(b, gradient)
		if first == nil {
			first = got
		}
		for i := range got {
			if got[i] != first[i] {
				t.Fatalf("%s: element %d is %v, was %v", b.Name(), i, got[i], first[i])
			}
		}
	}
}

func TestShapesPanic(t *testing.T) {
	mlp := nn.MLP{Sizes: []int{3, 2}}
	for want, f := range map[string]func(){
		"8 parameters":   func() { blocks.Bind(mlp, compute.Block{Rows: 7, Cols: 1, Stride: 1}) },
		"stride 2":       func() { blocks.Bind(mlp, compute.Block{Rows: 8, Cols: 1, Stride: 2}) },
		"sizes [3 0]":    func() { nn.MLP{Sizes: []int{3, 0}}.NumParams() },
		"needs an input": func() { nn.MLP{Sizes: []int{3}}.NumParams() },
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.Contains(r, want) {
					t.Errorf("panic %q, want one with %q", r, want)
				}
			}()
			f()
		})
	}
}
