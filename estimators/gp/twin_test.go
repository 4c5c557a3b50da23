package gp

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

// batch is a small data set on the host.
type batch struct {
	n, d, k  int
	features []float64 // n × d
	fisher   []float64 // n × k, any columns
	targets  []float64 // n
}

// newBatch draws a batch: correlated features in (-1, 1), smooth noisy targets.
func newBatch(rng *rand.Rand, n, d, k int) batch {
	x := batch{n: n, d: d, k: k, features: make([]float64, n*d), fisher: make([]float64, n*k),
		targets: make([]float64, n)}
	for i := range n {
		latent := rng.NormFloat64()
		for j := range d {
			x.features[i*d+j] = math.Tanh(latent*math.Sin(float64(j+1)) + 0.3*rng.NormFloat64())
		}
		for j := range k {
			x.fisher[i*k+j] = rng.NormFloat64() / math.Sqrt(float64(n))
		}
		x.targets[i] = math.Sin(3*latent) + x.fisher[i*k]*10 + 0.3*rng.NormFloat64()
	}
	return x
}

// upload puts the batch on a backend.
func (x batch) upload(s *compute.Scope) Data {
	return Data{
		Features: s.FromSlice(x.n, x.d, x.features),
		Fisher:   s.FromSlice(x.n, x.k, x.fisher),
		Targets:  s.FromSlice(x.n, 1, x.targets),
	}
}

// twin is the process by dense algebra: n × n matrices, element by element.
type twin struct {
	state, fisher, k *mat.SymDense // c1 K_s, c2 K_f, K
	alpha            *mat.VecDense
	value            float64 // log likelihood / n
	factor           mat.Cholesky
}

// newTwin forms K with structured kernel interpolation, or with the exact base
// kernel (rbf), and solves.
func newTwin(x batch, k Kernel, interpolated bool) *twin {
	z := scaleDense(x.features)
	state := mat.NewSymDense(x.n, nil)
	r := gridMatrix(k)
	for i := range x.n {
		for j := i; j < x.n; j++ {
			sum := 0.0
			for c := range x.d {
				if interpolated {
					sum += interpolatedKernel(r, grid(), z[i*x.d+c], z[j*x.d+c])
				} else {
					u := (z[i*x.d+c] - z[j*x.d+c]) / k.Hyper.Base[0]
					sum += math.Exp(-u * u / 2) // rbf
				}
			}
			state.SetSym(i, j, k.C1*k.OutputScale*sum)
		}
	}
	return solveTwin(x, k, state)
}

// solveTwin adds the Fisher kernel and the noise to c1 K_s, and solves.
func solveTwin(x batch, k Kernel, state *mat.SymDense) *twin {
	t := &twin{state: state, fisher: mat.NewSymDense(x.n, nil), k: mat.NewSymDense(x.n, nil)}
	for i := range x.n {
		for j := i; j < x.n; j++ {
			dot := 0.0
			for c := range x.k {
				dot += x.fisher[i*x.k+c] * x.fisher[j*x.k+c]
			}
			t.fisher.SetSym(i, j, k.C2*float64(x.n)*k.FisherVariance*dot)
		}
	}
	t.k.AddSym(t.state, t.fisher)
	for i := range x.n {
		t.k.SetSym(i, i, t.k.At(i, i)+k.Noise)
	}
	if !t.factor.Factorize(t.k) {
		panic("the twin's kernel matrix is not positive definite")
	}
	y := mat.NewVecDense(x.n, x.targets)
	t.alpha = mat.NewVecDense(x.n, nil)
	_ = t.factor.SolveVecTo(t.alpha, y) // a bad condition number is part of the comparison
	t.value = -(mat.Dot(y, t.alpha) + t.factor.LogDet() + float64(x.n)*math.Log(2*math.Pi)) / 2 / float64(x.n)
	return t
}

// grid returns the line that features are interpolated on.
func grid() compute.Grid {
	const step = 1.9 / 125
	return compute.Grid{Low: -0.95 - step, Step: step, Size: 128}
}

// gridMatrix returns the base kernel's matrix on the grid.
func gridMatrix(k Kernel) *mat.SymDense {
	var points []float64
	for i := range grid().Size {
		points = append(points, grid().Low+float64(i)*grid().Step)
	}
	r, _ := k.base().Matrix(points, k.Hyper.Base)
	return r
}

// scaleDense scales the features to [-0.95, 0.95].
func scaleDense(x []float64) []float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	z := make([]float64, len(x))
	for i, v := range x {
		z[i] = -0.95 + 1.9*(v-low)/(high-low)
	}
	return z
}

// interpolatedKernel returns w(a)' R w(b) over the 4 × 4 grid points about a and b.
func interpolatedKernel(r mat.Symmetric, g compute.Grid, a, b float64) float64 {
	first := func(z float64) (point int, weights [4]float64) {
		u := (z - g.Low) / g.Step
		point = min(max(int(u), 1), g.Size-3)
		t := u - float64(point)
		// Keys 1981, equation 15, by powers of t.
		return point - 1, [4]float64{
			(-t + 2*t*t - t*t*t) / 2,
			(2 - 5*t*t + 3*t*t*t) / 2,
			(t + 4*t*t - 3*t*t*t) / 2,
			(-t*t + t*t*t) / 2,
		}
	}
	pointA, weightsA := first(a)
	pointB, weightsB := first(b)
	sum := 0.0
	for i, wa := range weightsA {
		for j, wb := range weightsB {
			sum += wa * wb * r.At(pointA+i, pointB+j)
		}
	}
	return sum
}

// upload puts a host matrix into s.
func upload(s *compute.Scope, x mat.Matrix) compute.Block {
	rows, cols := x.Dims()
	return s.FromSlice(rows, cols, mat.DenseCopyOf(x).RawMatrix().Data)
}

// core returns V'A^-1 V for a symmetric positive definite n × n matrix A.
func (x batch) core(a mat.Symmetric) *mat.Dense {
	var factor mat.Cholesky
	if !factor.Factorize(a) {
		panic("the twin's matrix is not positive definite")
	}
	v := mat.NewDense(x.n, x.k, x.fisher)
	var solved, core mat.Dense
	_ = factor.SolveTo(&solved, v)
	core.Mul(v.T(), &solved)
	return &core
}

// someKernel returns a kernel with every number away from its default.
func someKernel() Kernel {
	return Kernel{C1: 0.9, C2: 0.02, Hyper: Hyper{
		Base: []float64{0.4}, OutputScale: 0.8, FisherVariance: 1.3, Noise: 0.2}}
}

// backends calls the test on each backend.
func backends(t *testing.T, test func(t *testing.T, s *compute.Scope)) {
	for _, b := range []compute.Backend{computetest.Naive(), cpu.New(2)} {
		t.Run(b.Name(), func(t *testing.T) { onBackend(t, b, test) })
	}
}

// onBackend calls the test with b behind an opaque wall, which says when something
// reaches around the backend or does not release what it allocated.
func onBackend(t *testing.T, b compute.Backend, test func(t *testing.T, s *compute.Scope)) {
	t.Helper()
	opaque := computetest.Opaque(b)
	s := compute.NewScope(opaque)
	test(t, s)
	s.Release()
	if live := opaque.Live(); live != 0 {
		t.Errorf("%d buffers were not released", live)
	}
}

// seeded returns a generator whose seed the test's log shows.
func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// relative returns |got - want| / |want|.
func relative(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	difference, norm := 0.0, 0.0
	for i := range got {
		difference += (got[i] - want[i]) * (got[i] - want[i])
		norm += want[i] * want[i]
	}
	return math.Sqrt(difference / norm)
}

// wantNear fails unless got and want agree to the relative tolerance.
func wantNear(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if e := relative(got, want); !(e <= tolerance) {
		t.Errorf("%s: relative error %.2g, want at most %.2g", what, e, tolerance)
	}
}
