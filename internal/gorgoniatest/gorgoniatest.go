// Package gorgoniatest is an oracle for hand-written derivatives: gorgonia differentiates the formula itself, to
// rounding, and shares no code with the passes that it judges.
//
// It is slow, and its derivatives are right in the first order only. Its graphs share the nodes of constants, so it
// must not be used by two goroutines at a time.
package gorgoniatest

import (
	"fmt"
	"slices"

	_ "go4.org/unsafe/assume-no-moving-gc" // the version that tensor needs on today's Go
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/dbqpg/dbqpg/internal/nn"
)

// A Graph is an expression under construction, of constants and of a flat vector of parameters.
type Graph struct {
	graph      *gorgonia.ExprGraph
	rest       []float64 // the parameters that have no node yet
	parameters []*gorgonia.Node
}

// Gradient returns the value at params of the scalar that f builds, and its derivatives in params. f takes all
// parameters, in their order. Whatever is wrong with an expression panics.
func Gradient(params []float64, f func(g *Graph) *gorgonia.Node) (value float64, gradient []float64) {
	g := &Graph{graph: gorgonia.NewGraph(), rest: slices.Clone(params)}
	scalar := f(g)
	if len(g.rest) > 0 {
		panic(fmt.Sprintf("gorgoniatest: %d of %d parameters are not in the expression", len(g.rest), len(params)))
	}
	slopes, err := gorgonia.Grad(scalar, g.parameters...)
	if err != nil {
		panic("gorgoniatest: " + err.Error())
	}
	// Read copies: a node's own memory may be used again within the run.
	var of gorgonia.Value
	parts := make([]gorgonia.Value, len(slopes))
	gorgonia.Read(scalar, &of)
	for i, slope := range slopes {
		gorgonia.Read(slope, &parts[i])
	}
	machine := gorgonia.NewTapeMachine(g.graph)
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		panic("gorgoniatest: " + err.Error())
	}
	for _, part := range parts {
		gradient = append(gradient, part.Data().([]float64)...)
	}
	return of.Data().(float64), gradient
}

// Parameters returns the matrix (row-major) of the next rows × cols parameters.
func (g *Graph) Parameters(rows, cols int) *gorgonia.Node {
	if rows*cols > len(g.rest) {
		panic(fmt.Sprintf("gorgoniatest: %d × %d parameters, %d are left", rows, cols, len(g.rest)))
	}
	p := g.Matrix(rows, cols, g.rest[:rows*cols])
	g.rest = g.rest[rows*cols:]
	g.parameters = append(g.parameters, p)
	return p
}

// Matrix returns a constant, row-major.
func (g *Graph) Matrix(rows, cols int, data []float64) *gorgonia.Node {
	value := tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(slices.Clone(data)))
	return gorgonia.NewMatrix(g.graph, gorgonia.Float64, gorgonia.WithShape(rows, cols), gorgonia.WithValue(value),
		gorgonia.WithName(fmt.Sprintf("input %d", len(g.graph.AllNodes()))))
}

// Rows returns the 1 × k row n times, n × k.
func (g *Graph) Rows(n int, row *gorgonia.Node) *gorgonia.Node {
	return gorgonia.Must(gorgonia.Mul(g.Matrix(n, 1, slices.Repeat([]float64{1}, n)), row))
}

// MLP returns the network's output on the inputs (n × in): each layer is tanh(H W' + b), the last one without tanh
// unless the network asks for it. It takes the next m.NumParams() parameters.
func (g *Graph) MLP(m nn.MLP, inputs *gorgonia.Node) *gorgonia.Node {
	h := inputs
	for l, out := range m.Sizes[1:] {
		w, b := g.Parameters(out, m.Sizes[l]), g.Parameters(1, out)
		h = gorgonia.Must(gorgonia.Mul(h, gorgonia.Must(gorgonia.Transpose(w))))
		h = gorgonia.Must(gorgonia.Add(h, g.Rows(inputs.Shape()[0], b)))
		if l < len(m.Sizes)-2 || m.TanhOutput {
			h = gorgonia.Must(gorgonia.Tanh(h))
		}
	}
	return h
}

// WeightedSum returns the sum of the elements of x, each times its weight (row-major).
func (g *Graph) WeightedSum(weights []float64, x *gorgonia.Node) *gorgonia.Node {
	w := g.Matrix(x.Shape()[0], x.Shape()[1], weights)
	return gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(w, x))))
}
