package gp

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// gram holds, on the host, all products over n that the closed form needs: those of
// the state columns Z of B, of V, and of the targets y.
type gram struct {
	stateState    *mat.SymDense // Z'Z
	stateFisher   *mat.Dense    // Z'V
	fisherFisher  *mat.SymDense // V'V
	stateTargets  []float64     // Z'y
	fisherTargets []float64     // V'y
}

// FisherGram is V'V, k × k, for fits to share that differ in the features alone.
func FisherGram(b compute.Backend, v compute.Block) *mat.SymDense {
	s := compute.NewScope(b)
	defer s.Release()
	return square(s, v)
}

// square is x'x.
func square(s *compute.Scope, x compute.Block) *mat.SymDense {
	dst := s.New(x.Cols, x.Cols)
	s.Backend().Gram(dst, x)
	return mat.NewSymDense(x.Cols, compute.ToSlice(s.Backend(), dst))
}

// fisherGram is V'V, computed unless it is at hand.
func (d Data) fisherGram(b compute.Backend) *mat.SymDense {
	if d.FisherGram != nil {
		return d.FisherGram
	}
	return FisherGram(b, d.Fisher)
}

// newGram computes the products: n (dq + k)² multiplications and additions.
func newGram(b compute.Backend, z compute.Block, d Data) gram {
	v, y := d.Fisher, d.Targets
	scope := compute.NewScope(b)
	defer scope.Release()
	cross := func(x, y compute.Block) []float64 {
		dst := scope.New(x.Cols, y.Cols)
		b.Gemm(true, false, 1, x, y, 0, dst)
		return compute.ToSlice(b, dst)
	}
	return gram{
		stateState:    square(scope, z),
		stateFisher:   mat.NewDense(z.Cols, v.Cols, cross(z, v)),
		fisherFisher:  d.fisherGram(b),
		stateTargets:  cross(z, y),
		fisherTargets: cross(v, y),
	}
}

// minus is the products over the samples that are in g and not in some of them, h.
func (g gram) minus(h gram) gram {
	difference := func(x, y mat.Matrix) *mat.Dense {
		out := new(mat.Dense)
		out.Sub(x, y)
		return out
	}
	symmetric := func(x, y *mat.SymDense) *mat.SymDense {
		size := x.SymmetricDim()
		return mat.NewSymDense(size, difference(x, y).RawMatrix().Data)
	}
	vector := func(x, y []float64) []float64 {
		return difference(mat.NewVecDense(len(x), x), mat.NewVecDense(len(y), y)).RawMatrix().Data
	}
	return gram{
		stateState:    symmetric(g.stateState, h.stateState),
		stateFisher:   difference(g.stateFisher, h.stateFisher),
		fisherFisher:  symmetric(g.fisherFisher, h.fisherFisher),
		stateTargets:  vector(g.stateTargets, h.stateTargets),
		fisherTargets: vector(g.fisherTargets, h.fisherTargets),
	}
}

// size is r, the number of columns of B.
func (g gram) size() int { return len(g.stateTargets) + len(g.fisherTargets) }

// matrix is M = noise I + B'B for B = [Z, fisher^1/2 V], its upper triangle.
func (g gram) matrix(fisher, noise float64) *mat.SymDense {
	state, size := len(g.stateTargets), g.size()
	m, root := make([]float64, size*size), math.Sqrt(fisher)
	stateState, fisherFisher := g.stateState.RawSymmetric(), g.fisherFisher.RawSymmetric()
	for i := range state {
		row := m[i*size : (i+1)*size]
		copy(row[i:state], stateState.Data[i*stateState.Stride+i:])
		floats.ScaleTo(row[state:], root, g.stateFisher.RawRowView(i))
		row[i] += noise
	}
	for i := range size - state {
		row := m[(state+i)*size+state : (state+i+1)*size]
		floats.ScaleTo(row[i:], fisher, fisherFisher.Data[i*fisherFisher.Stride+i:i*fisherFisher.Stride+len(row)])
		row[i] += noise
	}
	return mat.NewSymDense(size, m)
}

// targets is B'y.
func (g gram) targets(fisher float64) *mat.VecDense {
	state := len(g.stateTargets)
	by := mat.NewVecDense(g.size(), append(append([]float64{}, g.stateTargets...), g.fisherTargets...))
	tail := by.SliceVec(state, g.size()).(*mat.VecDense)
	tail.ScaleVec(math.Sqrt(fisher), tail)
	return by
}

// productFisher is B'V.
func (g gram) productFisher(fisher float64) *mat.Dense {
	var scaled, all mat.Dense
	scaled.Scale(math.Sqrt(fisher), g.fisherFisher)
	all.Stack(g.stateFisher, &scaled)
	return &all
}

// core is V'(noise I + A A')^-1 V = (V'V - V'A (noise I + A'A)^-1 A'V)/noise, where
// factor is that of noise I + A'A and product is A'V.
func (g gram) core(factor cholesky, product *mat.Dense, noise float64) *mat.SymDense {
	core := new(mat.SymDense)
	core.SymOuterK(-1, factor.whiten(product).T())
	core.AddSym(core, g.fisherFisher)
	core.ScaleSym(1/noise, core)
	return core
}
