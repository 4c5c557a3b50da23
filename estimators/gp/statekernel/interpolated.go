package statekernel

import (
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// interpolated holds the parts of the factor of structured kernel interpolation,
// [W_1 L_1, ..., W_d L_d], that are needed whether it is formed or not. L_j is L, unless a
// sparseFactor leaves out columns.
type interpolated struct {
	backend  compute.Backend
	grid     compute.Grid
	scaled   compute.Block // n × d
	spectrum *spectrum
	table    compute.Block // L, 128 × spectrum.rank()
	bounds   []int         // d + 1: the columns of feature j are [bounds[j], bounds[j+1])
}

// withColumns returns f with the given numbers of columns for the features.
func (f interpolated) withColumns(counts []int) interpolated {
	f.bounds = []int{0}
	for j, count := range counts {
		f.bounds = append(f.bounds, f.bounds[j]+count)
	}
	return f
}

// withAllColumns returns f with L for each feature.
func (f interpolated) withAllColumns() interpolated {
	return f.withColumns(slices.Repeat([]int{f.spectrum.rank()}, f.scaled.Cols))
}

func (f *interpolated) Cols() int { return f.bounds[f.scaled.Cols] }

// block returns the range of columns that belong to feature j.
func (f *interpolated) block(j int) (from, to int) { return f.bounds[j], f.bounds[j+1] }

func (f *interpolated) Rows(s *compute.Scope, scaled compute.Block) compute.Block {
	z := s.New(scaled.Rows, f.Cols())
	f.fill(s.Backend(), z, scaled)
	return z
}

// fill sets z to Z's rows at some scaled features, computed by b.
func (f *interpolated) fill(b compute.Backend, z, scaled compute.Block) {
	for j := range scaled.Cols {
		b.Interpolate(false, z.ColRange(f.block(j)), scaled.Col(j), f.table, f.grid)
	}
}

// base returns the gradient in the base kernel's hyperparameters. It takes no sum over n: G is
// 2 S Z with the gradient S in ZZ', and d(ZZ') is Z times something times Z'. Of fewer
// columns that something is the leading part.
func (f *interpolated) base(in Gradient) []float64 {
	s, q := compute.NewScope(f.backend), f.spectrum.rank()
	defer s.Release()
	squares := s.New(q, q)
	compute.Fill(f.backend, squares, 0)
	for j := range f.scaled.Cols {
		from, to := f.block(j)
		in.addSquare(f.backend, squares.View(0, to-from, 0, to-from), from, to)
	}
	return f.spectrum.form(compute.ToSlice(f.backend, squares))
}
