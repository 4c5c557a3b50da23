package gp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Hyper are the learned hyperparameters, all positive, or a gradient in them.
type Hyper struct {
	Base           []float64 // the base kernel's own, in units of the scaled features; for RBF its lengthscale l
	OutputScale    float64   // c_o
	FisherVariance float64   // v
	Noise          float64   // the observations' variance, sigma² in the paper
}

// Kernel is the process's covariance (eqn:kernel_definitions).
type Kernel struct {
	Base   *kernels.Kernel // of each feature dimension; nil stands for the default
	C1, C2 float64         // weights of the state and of the Fisher kernel, zero or more
	Hyper
}

// Validate says what is wrong with the kernel's numbers, if anything is. It panics if
// the base kernel has another number of hyperparameters.
func (k Kernel) Validate() error {
	type number struct {
		name  string
		value float64
		zero  bool
	}
	numbers := []number{
		{"c1", k.C1, true},
		{"c2", k.C2, true},
		{"output scale", k.OutputScale, false},
		{"fisher variance", k.FisherVariance, false},
		{"noise", k.Noise, false},
	}
	names := k.base().Hyperparameters()
	if len(names) != len(k.Hyper.Base) {
		panic(fmt.Sprintf("gp: %d hyperparameters of the base kernel %s, want %v", len(k.Hyper.Base), k.base().Name(), names))
	}
	for i, name := range names {
		numbers = append(numbers, number{name, k.Hyper.Base[i], false})
	}
	for _, x := range numbers {
		if math.IsNaN(x.value) || math.IsInf(x.value, 0) || x.value < 0 || x.value == 0 && !x.zero {
			return &HyperparameterError{Name: x.name, Value: x.value}
		}
	}
	return nil
}

// base is the kernel's Base or its default.
func (k Kernel) base() *kernels.Kernel {
	if k.Base == nil {
		return kernels.Default()
	}
	return k.Base
}

// FisherWeight is kappa = c2 v, the weight of the Fisher kernel K_f in K. Everything that
// is derived from K takes this weight and not c2: the policy gradient kappa U alpha, its
// covariance and the natural gradient's precision. They agree with one another only if
// they take the same one.
func (k Kernel) FisherWeight() float64 { return k.C2 * k.FisherVariance }

// fisherScale is the factor of V V' in K: kappa n.
func (k Kernel) fisherScale(n int) float64 { return k.FisherWeight() * float64(n) }

// Bound is the largest absolute value of a scaled feature.
const Bound = 0.95

// grid is the line that each feature dimension is interpolated on: 128 points, of
// which the first and the last lie one step outside [-Bound, Bound].
func grid() compute.Grid {
	const size = 128
	const step = 2 * Bound / (size - 3)
	return compute.Grid{Low: -Bound - step, Step: step, Size: size}
}

// gridMatrix is the base kernel's matrix R on the grid, and its derivative in each of
// the base kernel's hyperparameters.
func (k Kernel) gridMatrix() (value *mat.SymDense, gradient []*mat.SymDense) {
	return k.base().Matrix(gridPoints(), k.Hyper.Base)
}

func gridPoints() []float64 {
	g := grid()
	points := make([]float64, g.Size)
	for i := range points {
		points[i] = g.Low + float64(i)*g.Step
	}
	return points
}

// stateOperators are c1 K_s at scaled features, and its derivatives in the base kernel's
// hyperparameters. Their blocks belong to s.
func (k Kernel) stateOperators(s *compute.Scope, scaled compute.Block) (value *linop.Interp, gradient []linop.Operator) {
	interpolated := func(r *mat.SymDense) *linop.Interp {
		r.ScaleSym(k.C1*k.OutputScale, r)
		return linop.NewInterp(s.Backend(), scaled, grid(), linop.NewDense(s.Backend(), upload(s, r)))
	}
	r, slopes := k.gridMatrix()
	for _, slope := range slopes {
		gradient = append(gradient, interpolated(slope))
	}
	return interpolated(r), gradient
}

// HyperparameterError says that a hyperparameter is out of its range.
type HyperparameterError struct {
	Name  string
	Value float64
}

// Error implements error.
func (e *HyperparameterError) Error() string {
	return fmt.Sprintf("gp: %s is %g, want a positive number (c1 and c2 may be 0)", e.Name, e.Value)
}
