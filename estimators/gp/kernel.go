package gp

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
)

// Hyper holds the learned hyperparameters, which are positive, or a gradient in them.
type Hyper struct {
	// hyperparameters of the base kernel, in units of the scaled features, such as the lengthscale l
	Base           []float64
	OutputScale    float64 // c_o
	FisherVariance float64 // v
	Noise          float64 // variance of the observation noise, sigma² in the paper
}

// Kernel is the process's covariance (eqn:kernel_definitions).
type Kernel struct {
	Base   *kernels.Kernel // base kernel of each feature dimension; nil means the default
	C1, C2 float64         // weights of the state kernel and of the Fisher kernel, non-negative
	Hyper
}

// Validate returns an error if a number is out of its range. It panics if the base kernel has
// another number of hyperparameters.
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
		panic(fmt.Sprintf("gp: %d hyperparameters of the base kernel %s, want %v", len(k.Hyper.Base), k.base().Name(),
			names))
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

// base returns the kernel's Base or its default.
func (k Kernel) base() *kernels.Kernel {
	if k.Base == nil {
		return kernels.Default()
	}
	return k.Base
}

// FisherWeight returns kappa = c2 v, the weight of the Fisher kernel K_f in K. Everything that
// is derived from K must use this weight rather than c2, to be consistent: the policy gradient
// kappa U alpha, its covariance, and the precision of the natural gradient.
func (k Kernel) FisherWeight() float64 { return k.C2 * k.FisherVariance }

// fisherScale returns the factor of V V' in K: kappa n.
func (k Kernel) fisherScale(n int) float64 { return k.FisherWeight() * float64(n) }

// state returns c1 k_s.
func (k Kernel) state() statekernel.Kernel {
	return statekernel.Kernel{Base: k.base(), Hyper: k.Hyper.Base, Scale: k.C1 * k.OutputScale}
}

// HyperparameterError reports that a hyperparameter is out of its range.
type HyperparameterError struct {
	Name  string
	Value float64
}

// Error implements error.
func (e *HyperparameterError) Error() string {
	return fmt.Sprintf("gp: %s is %g, want a positive number (c1 and c2 may be 0)", e.Name, e.Value)
}
