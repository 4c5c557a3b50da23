package kernels

import "gorgonia.org/gorgonia"

// node is a vector in a graph, an element for each pair of points, or a number.
type node = *gorgonia.Node

// expression builds a kernel's value from what it takes of each pair of points and
// from its hyperparameters, element by element. It must not take the square root, nor
// the logarithm, of what can be 0: their derivatives are infinite there, and 0 times
// infinity is not a number.
type expression func(of node, hyper []node) node

// What expressions are made of.

func number(x float64) node { return gorgonia.NewConstant(x) }

func add(terms ...node) node { return fold(gorgonia.Add, terms) }

func mul(factors ...node) node { return fold(gorgonia.HadamardProd, factors) }

func scale(c float64, x node) node { return must(gorgonia.HadamardProd(number(c), x)) }

func div(x, y node) node { return must(gorgonia.HadamardDiv(x, y)) }

func square(x node) node { return must(gorgonia.Square(x)) }

func abs(x node) node { return must(gorgonia.Abs(x)) }

func exp(x node) node { return must(gorgonia.Exp(x)) }

func log1p(x node) node { return must(gorgonia.Log1p(x)) }

func sin(x node) node { return must(gorgonia.Sin(x)) }

func cos(x node) node { return must(gorgonia.Cos(x)) }

// fold combines nodes from the left.
func fold(op func(a, b node) (node, error), nodes []node) node {
	x := nodes[0]
	for _, y := range nodes[1:] {
		x = must(op(x, y))
	}
	return x
}

// must panics on the error of an expression that this package has written wrongly.
func must[T any](x T, err error) T {
	if err != nil {
		panic("kernels: " + err.Error())
	}
	return x
}
