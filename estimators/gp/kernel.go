package gp

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Base is a stationary kernel on the line: the correlation, 1 at distance 0, of two
// points r >= 0 apart under lengthscale l > 0, and its derivative in l.
type Base func(r, l float64) (value, gradient float64)

// RBF is the Gaussian kernel exp(-r²/2l²).
func RBF(r, l float64) (value, gradient float64) {
	u := r / l
	value = math.Exp(-u * u / 2)
	return value, value * u * u / l
}

// Matern52 is the Matérn kernel of smoothness 5/2, (1 + u + u²/3) exp(-u) with
// u = √5 r/l. Rougher than [RBF]: its grid matrix has full rank.
func Matern52(r, l float64) (value, gradient float64) {
	u := math.Sqrt(5) * r / l
	e := math.Exp(-u)
	return (1 + u + u*u/3) * e, u * u * (1 + u) / 3 * e / l
}

// Hyper are the learned hyperparameters, all positive, or a gradient in them.
type Hyper struct {
	Lengthscale    float64 // l, in units of the scaled features
	OutputScale    float64 // c_o
	FisherVariance float64 // v
	Noise          float64 // the observations' variance, sigma² in the paper
}

// Kernel is the process's covariance (eqn:kernel_definitions).
type Kernel struct {
	Base   Base    // of each feature dimension; nil stands for [RBF]
	C1, C2 float64 // weights of the state and of the Fisher kernel, zero or more
	Hyper
}

// Weights of the two kernels in all of the paper's experiments
// (appendix_implementation_details).
const (
	DefaultC1 = 1.0
	DefaultC2 = 5e-5
)

// Validate says what is wrong with the kernel's numbers, if anything is.
func (k Kernel) Validate() error {
	for _, x := range []struct {
		name  string
		value float64
		zero  bool
	}{
		{"c1", k.C1, true},
		{"c2", k.C2, true},
		{"lengthscale", k.Lengthscale, false},
		{"output scale", k.OutputScale, false},
		{"fisher variance", k.FisherVariance, false},
		{"noise", k.Noise, false},
	} {
		if math.IsNaN(x.value) || math.IsInf(x.value, 0) || x.value < 0 || x.value == 0 && !x.zero {
			return &HyperparameterError{Name: x.name, Value: x.value}
		}
	}
	return nil
}

// base is the kernel's Base or its default.
func (k Kernel) base() Base {
	if k.Base == nil {
		return RBF
	}
	return k.Base
}

// fisherScale is the factor of V V' in K: c2 n v.
func (k Kernel) fisherScale(n int) float64 { return k.C2 * float64(n) * k.FisherVariance }

// Bound is the largest absolute value of a scaled feature.
const Bound = 0.95

// grid is the line that each feature dimension is interpolated on: 128 points, of
// which the first and the last lie one step outside [-Bound, Bound].
func grid() compute.Grid {
	const size = 128
	const step = 2 * Bound / (size - 3)
	return compute.Grid{Low: -Bound - step, Step: step, Size: size}
}

// column is the first column of the grid's Toeplitz matrix R, and of dR/dl.
func (k Kernel) column(g compute.Grid) (value, gradient []float64) {
	value, gradient = make([]float64, g.Size), make([]float64, g.Size)
	base := k.base()
	for i := range g.Size {
		value[i], gradient[i] = base(float64(i)*g.Step, k.Lengthscale)
	}
	return value, gradient
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
