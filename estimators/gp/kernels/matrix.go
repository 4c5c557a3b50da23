package kernels

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Matrix returns the kernel's matrix over points of the line, element (i, j) being the
// kernel at points i and j, and its derivative in each hyperparameter. Over evenly
// spaced points a stationary kernel is evaluated once for each distance, else once for
// each pair.
//
// It panics if there are no points, and on numbers that are out of range.
func (k *Kernel) Matrix(points, hyper []float64) (value *mat.SymDense, gradient []*mat.SymDense) {
	k.check(hyper)
	if len(points) == 0 {
		panic(fmt.Sprintf("kernels: %s: no points", k.name))
	}
	for i, x := range points {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			panic(fmt.Sprintf("kernels: %s: point %d is %g", k.name, i, x))
		}
	}
	var of []float64
	var fill func(n int, elements []float64) *mat.SymDense
	if k.Stationary() && evenlySpaced(points) {
		of, fill = k.with(points[0], points), toeplitz
	} else {
		of, fill = k.pairs(points), triangle
	}
	elements, slopes := k.evaluate(of, hyper)
	value = fill(len(points), elements)
	for _, slope := range slopes {
		gradient = append(gradient, fill(len(points), slope))
	}
	return value, gradient
}

// check panics unless the hyperparameters are as many as the kernel has, and positive.
func (k *Kernel) check(hyper []float64) {
	if len(hyper) != len(k.hyper) {
		panic(fmt.Sprintf("kernels: %s: %d hyperparameters, want %d %v", k.name, len(hyper), len(k.hyper), k.hyper))
	}
	for j, x := range hyper {
		if !(x > 0) || math.IsInf(x, 1) {
			panic(fmt.Sprintf("kernels: %s: %s is %g, want a positive number", k.name, k.hyper[j], x))
		}
	}
}

// with returns the kernel's argument, distance or product, for x and each of the points.
func (k *Kernel) with(x float64, points []float64) []float64 {
	of := make([]float64, len(points))
	for i, y := range points {
		if k.of == product {
			of[i] = x * y
		} else {
			of[i] = math.Abs(y - x)
		}
	}
	return of
}

// pairs returns the kernel's argument for all pairs of points: the upper triangle of the matrix,
// row by row.
func (k *Kernel) pairs(points []float64) []float64 {
	var of []float64
	for i, x := range points {
		of = append(of, k.with(x, points[i:])...)
	}
	return of
}

// evenlySpaced reports whether neighbours among the points are all the same distance
// apart, up to rounding.
func evenlySpaced(points []float64) bool {
	const rounding = 1e-13
	last := len(points) - 1
	if last == 0 {
		return true
	}
	span := points[last] - points[0]
	size := math.Max(math.Abs(points[0]), math.Abs(points[last]))
	for i, x := range points {
		if math.Abs(points[0]+span*float64(i)/float64(last)-x) > rounding*size {
			return false
		}
	}
	return true
}

// triangle returns the symmetric matrix of n rows with the given upper triangle.
func triangle(n int, elements []float64) *mat.SymDense {
	matrix := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			matrix.SetSym(i, j, elements[0])
			elements = elements[1:]
		}
	}
	return matrix
}

// toeplitz returns the symmetric matrix of n rows with the given first column, constant
// along its diagonals.
func toeplitz(n int, column []float64) *mat.SymDense {
	matrix := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			matrix.SetSym(i, j, column[j-i])
		}
	}
	return matrix
}
