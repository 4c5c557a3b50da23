package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel is a base kernel: a covariance function of two real numbers, written as an
// expression of their distance or product and of positive hyperparameters. [Names] lists
// the kernels, and [Lookup] returns them.
type Kernel struct {
	name  string
	hyper []string // names of the hyperparameters, in the order of the expression's
	of    argument
	value expression

	programs map[int]*program // compiled, by number of points; guarded by the package's mutex
}

// argument is the function of two points on which a kernel depends.
type argument int

const (
	distance argument = iota // |x - x'|: the kernel is stationary
	product                  // x x'
)

// table lists all kernels, the default first. A new kernel needs a line here and its
// expression in formulas.go.
var table = []*Kernel{
	{name: "rbf", of: distance, value: rbf, hyper: []string{lengthscale}},
	{name: "matern12", of: distance, value: matern12, hyper: []string{lengthscale}},
	{name: "matern32", of: distance, value: matern32, hyper: []string{lengthscale}},
	{name: "matern52", of: distance, value: matern52, hyper: []string{lengthscale}},
	{name: "rational-quadratic", of: distance, value: rationalQuadratic, hyper: []string{lengthscale, alpha}},
	{name: "periodic", of: distance, value: periodic, hyper: []string{lengthscale, period}},
	{name: "cosine", of: distance, value: cosine, hyper: []string{period}},
	{name: "piecewise-polynomial", of: distance, value: piecewisePolynomial, hyper: []string{lengthscale}},
	{name: "linear", of: product, value: linear},
}

// Names of hyperparameters, as they are logged and stored.
const (
	lengthscale = "lengthscale"
	period      = "period"
	alpha       = "alpha"
)

// Names returns the kernels' names in the table's order: rbf first, the rest by kind.
func Names() []string {
	names := make([]string, len(table))
	for i, k := range table {
		names[i] = k.name
	}
	return names
}

// Lookup returns the kernel with a name, or an [*UnknownError]. It always returns the same
// pointer for the same name.
func Lookup(name string) (*Kernel, error) {
	if i := slices.IndexFunc(table, func(k *Kernel) bool { return k.name == name }); i >= 0 {
		return table[i], nil
	}
	return nil, &UnknownError{Name: name}
}

// Default returns rbf, the paper's base kernel.
func Default() *Kernel { return table[0] }

// Name returns the kernel's name on the command line and in files.
func (k *Kernel) Name() string { return k.name }

// Hyperparameters returns the names of the kernel's hyperparameters, in the order of their
// values and derivatives. The scale of the kernel as a whole is not among them.
func (k *Kernel) Hyperparameters() []string { return slices.Clone(k.hyper) }

// Stationary reports whether the kernel is a function of the distance alone. It is then 1 at
// distance 0, and its matrix over evenly spaced points is Toeplitz.
func (k *Kernel) Stationary() bool { return k.of == distance }

// String returns the kernel's name.
func (k *Kernel) String() string { return k.name }

// UnknownError reports that no kernel has a given name.
type UnknownError struct{ Name string }

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown base kernel %q: must be one of %s", e.Name, strings.Join(Names(), ", "))
}
