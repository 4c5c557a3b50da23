//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
)

// A view in the middle of a larger matrix of numbers.
func view(b compute.Backend, s *compute.Scope, rows, cols int) compute.Block {
	x := s.FromSlice(rows+2, cols+3, random((rows+2)*(cols+3)))
	return x.View(1, rows+1, 2, cols+2)
}

// Both backends make the same matrices, for random depends on sizes alone.
func onBoth(t *testing.T, b *Backend, name string, tolerance float64,
	f func(b compute.Backend, s *compute.Scope) compute.Block) {
	t.Helper()
	result := func(b compute.Backend) []float64 {
		s := compute.NewScope(b)
		defer s.Release()
		return compute.ToSlice(b, f(b, s))
	}
	got, want := result(b), result(computetest.Naive())
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s: element %d is %v, want %v", name, i, got[i], want[i])
		}
	}
}

var flags = []bool{false, true}

func TestDgemm(t *testing.T) {
	b := opened(t)
	for _, shape := range [][3]int{{1, 1, 1}, {3, 4, 5}, {1, 7, 2}, {7, 1, 3}, {130, 9, 300}} {
		m, n, k := shape[0], shape[1], shape[2]
		for _, transA := range flags {
			for _, transB := range flags {
				for _, beta := range []float64{0, -0.5} {
					onBoth(t, b, fmt.Sprint(shape, transA, transB, beta), 1e-12,
						func(on compute.Backend, s *compute.Scope) compute.Block {
							x, y, c := view(on, s, m, k), view(on, s, k, n), view(on, s, m, n)
							if transA {
								x = view(on, s, k, m)
							}
							if transB {
								y = view(on, s, n, k)
							}
							if on == compute.Backend(b) {
								b.dgemm(transA, transB, 1.5, x, y, beta, c)
							} else {
								on.Gemm(transA, transB, 1.5, x, y, beta, c)
							}
							return c
						})
				}
			}
		}
	}
}

// beta = 0 overwrites what was NaN.
func TestDgemmNaN(t *testing.T) {
	b := opened(t)
	s := compute.NewScope(b)
	defer s.Release()
	x, c := s.FromSlice(1, 1, []float64{3}), s.FromSlice(1, 1, []float64{math.NaN()})
	b.dgemm(false, false, 1, x, x, 0, c)
	if got := compute.ToSlice(b, c)[0]; got != 9 {
		t.Error(got)
	}
}

// Only the triangle that is asked for is written, and it is the product's.
func TestDsyrk(t *testing.T) {
	b := opened(t)
	const n, k = 5, 7
	for _, lower := range flags {
		for _, trans := range flags {
			onBoth(t, b, fmt.Sprint(lower, trans), 1e-12, func(on compute.Backend, s *compute.Scope) compute.Block {
				x, c := view(on, s, n, k), view(on, s, n, n)
				if trans {
					x = view(on, s, k, n)
				}
				if on == compute.Backend(b) {
					b.dsyrk(lower, trans, 2, x, 0.5, c)
					return c
				}
				full := s.New(n, n)
				compute.Copy(on, full, c)
				on.Gemm(trans, !trans, 2, x, x, 0.5, full)
				for i := range n {
					for j := range n {
						if lower && j <= i || !lower && j >= i {
							compute.Copy(on, c.View(i, i+1, j, j+1), full.View(i, i+1, j, j+1))
						}
					}
				}
				return c
			})
		}
	}
}
