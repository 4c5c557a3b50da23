// Package statekernel implements the state kernel on a batch of n samples,
//
//	c1 K_s = c1 c_o sum_j W_j R W_j'
//
// whose mathematics package gp explains: the scaling of the features, the kernel matrix as an
// operator, for iterative solvers, and as a product ZZ', for the closed form. Z comes from
// structured kernel interpolation or from inducing points.
package statekernel

import (
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Kernel is the state kernel c1 k_s.
type Kernel struct {
	Base  *kernels.Kernel // base kernel of each feature dimension
	Hyper []float64       // hyperparameters of the base kernel
	Scale float64         // c1 c_o
}

// grid returns the line that each feature dimension is interpolated on: 128 points, of
// which the first and the last lie one step outside [-Bound, Bound].
func grid() compute.Grid {
	const size = 128
	const step = 2 * Bound / (size - 3)
	return compute.Grid{Low: -Bound - step, Step: step, Size: size}
}

// gridMatrix returns the base kernel's matrix R on the grid, and its derivative in each of
// the base kernel's hyperparameters.
func (k Kernel) gridMatrix() (value *mat.SymDense, gradient []*mat.SymDense) {
	g := grid()
	points := make([]float64, g.Size)
	for i := range points {
		points[i] = g.Low + float64(i)*g.Step
	}
	return k.Base.Matrix(points, k.Hyper)
}

// Operators returns c1 K_s at scaled features (n × d), and its derivatives in the base
// kernel's hyperparameters. Their blocks belong to s.
func (k Kernel) Operators(s *compute.Scope, scaled compute.Block) (value *linop.Interp, gradient []linop.Operator) {
	operator := func(r *mat.SymDense) *linop.Interp {
		r.ScaleSym(k.Scale, r)
		return linop.NewInterp(s.Backend(), scaled, grid(), linop.NewDense(s.Backend(), upload(s, r)))
	}
	r, slopes := k.gridMatrix()
	for _, slope := range slopes {
		gradient = append(gradient, operator(slope))
	}
	return operator(r), gradient
}

// upload copies a host matrix to a block in s.
func upload(s *compute.Scope, x mat.Matrix) compute.Block {
	rows, cols := x.Dims()
	return s.FromSlice(rows, cols, mat.DenseCopyOf(x).RawMatrix().Data)
}
