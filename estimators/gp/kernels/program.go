package kernels

import (
	"sync"

	_ "go4.org/unsafe/assume-no-moving-gc" // the version that tensor needs on today's Go
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Numbers of pairs that one run of a program evaluates: that of the usual grid, and one for
// whole matrices, at which the fixed cost of a run is negligible.
const (
	shortRun = 128
	longRun  = 4096
)

// lock serialises all use of gorgonia: its graphs share the nodes of constants.
var lock sync.Mutex

// program is a kernel's expression and its derivatives, compiled for runs of a fixed
// number of pairs.
type program struct {
	machine gorgonia.VM

	// Memory of the graph's inputs: distances or products, and each hyperparameter
	// repeated for every pair.
	of    []float64
	hyper [][]float64

	// Results of a run: the kernel's values, and its derivatives in each of hyper.
	value    gorgonia.Value
	gradient []gorgonia.Value
}

// compile differentiates the kernel's expression on size pairs of points.
//
// Gradients are of sums: the sum of the kernel's values over the pairs, which would
// give only the sum of the derivatives. So every pair gets a copy of the
// hyperparameters of its own. The derivative of the sum in pair i's copy is the
// derivative of the kernel at pair i, and one backward pass yields all of them.
func (k *Kernel) compile(size int) *program {
	graph := gorgonia.NewGraph()
	input := func(name string) (node, []float64) {
		data := make([]float64, size)
		backing := tensor.New(tensor.WithShape(size), tensor.WithBacking(data))
		return gorgonia.NewVector(graph, gorgonia.Float64, gorgonia.WithShape(size),
			gorgonia.WithName(name), gorgonia.WithValue(backing)), data
	}
	p := new(program)
	of, data := input("distance or product")
	p.of = data
	hyper := make([]node, len(k.hyper))
	p.hyper = make([][]float64, len(k.hyper))
	for j, name := range k.hyper {
		hyper[j], p.hyper[j] = input(name)
	}
	value := k.value(of, hyper)
	if len(hyper) > 0 {
		p.gradient = make([]gorgonia.Value, len(hyper))
		for j, slope := range must(gorgonia.Grad(must(gorgonia.Sum(value)), hyper...)) {
			gorgonia.Read(slope, &p.gradient[j])
		}
	}
	gorgonia.Read(value, &p.value) // a copy: the node's own memory may be used again
	p.machine = gorgonia.NewTapeMachine(graph)
	return p
}

// run evaluates the program at no more pairs than it was compiled for, and copies
// their values and derivatives.
func (p *program) run(of, hyper, value []float64, gradient [][]float64) {
	clear(p.of[copy(p.of, of):])
	for j, x := range hyper {
		for i := range p.hyper[j] {
			p.hyper[j][i] = x
		}
	}
	defer p.machine.Reset() // without it the next run would compute nothing
	if err := p.machine.RunAll(); err != nil {
		panic("kernels: " + err.Error())
	}
	copy(value, p.value.Data().([]float64))
	for j, slope := range p.gradient {
		copy(gradient[j], slope.Data().([]float64))
	}
}

// evaluate returns the kernel, and its derivative in each hyperparameter, at given
// distances or products.
func (k *Kernel) evaluate(of, hyper []float64) (value []float64, gradient [][]float64) {
	value, gradient = make([]float64, len(of)), make([][]float64, len(hyper))
	for j := range gradient {
		gradient[j] = make([]float64, len(of))
	}
	lock.Lock()
	defer lock.Unlock()
	size := shortRun
	if len(of) > shortRun {
		size = longRun
	}
	p := k.program(size)
	rest := make([][]float64, len(hyper))
	for from := 0; from < len(of); from += size {
		to := min(from+size, len(of))
		for j := range rest {
			rest[j] = gradient[j][from:to]
		}
		p.run(of[from:to], hyper, value[from:to], rest)
	}
	return value, gradient
}

// program returns the kernel's program for runs of that size, which is compiled when first needed.
func (k *Kernel) program(size int) *program {
	if k.programs == nil {
		k.programs = map[int]*program{}
	}
	p, found := k.programs[size]
	if !found {
		p = k.compile(size)
		k.programs[size] = p
	}
	return p
}
