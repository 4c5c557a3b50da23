package batched

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/policy"
)

// inputs says which of the observations' columns a policy is evaluated on.
type inputs struct {
	whole   policy.Shape // with all columns
	columns []int        // in ascending order
	params  []int        // the positions of their policy's p parameters among all
}

// nonzero returns the columns that are not zero throughout the observations (n × o), or the
// first if all are.
func nonzero(s *compute.Scope, shape policy.Shape, observations compute.Block) inputs {
	squares := s.New(1, observations.Cols)
	s.Backend().ColDots(squares, observations, observations)
	var columns []int
	for j, square := range compute.ToSlice(s.Backend(), squares) {
		if square != 0 {
			columns = append(columns, j)
		}
	}
	if len(columns) == 0 {
		columns = []int{0}
	}
	return only(shape, columns)
}

// only returns these columns of a policy's inputs.
func only(shape policy.Shape, columns []int) inputs {
	in := inputs{whole: shape, columns: columns}
	first := shape.Network().Layers()[0]
	for row := range first.Out {
		for _, j := range in.columns {
			in.params = append(in.params, first.Weights+row*first.In+j)
		}
	}
	for i := first.Bias; i < shape.NumParams(); i++ {
		in.params = append(in.params, i)
	}
	return in
}

// of returns the columns of observations.
func (in inputs) of(s *compute.Scope, observations compute.Block) compute.Block {
	if len(in.columns) == observations.Cols {
		return observations
	}
	x := s.New(observations.Rows, len(in.columns))
	for lo := 0; lo < len(in.columns); { // runs of neighbouring columns
		hi := lo + 1
		for hi < len(in.columns) && in.columns[hi] == in.columns[hi-1]+1 {
			hi++
		}
		from := in.columns[lo]
		compute.Copy(s.Backend(), x.ColRange(lo, hi), observations.ColRange(from, from+hi-lo))
		lo = hi
	}
	return x
}

// reduce returns the p parameters among all.
func (in inputs) reduce(all []float64) []float64 {
	params := make([]float64, len(in.params))
	for i, k := range in.params {
		params[i] = all[k]
	}
	return params
}

// Expand returns a direction in the p parameters as one in all: zero in those that have no
// effect on the batch.
func (in inputs) Expand(direction []float64) []float64 {
	all := make([]float64, in.whole.NumParams())
	for i, k := range in.params {
		all[k] = direction[i]
	}
	return all
}
