package cholesky

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// All that the factor in blocks of 8 does, against gonum's on the same matrix. Only what is
// on and above the diagonal may be read.
func TestCholeskyAgainstDenseTwin(t *testing.T) {
	const noise, columns, width = 0.3, 3, 8
	for _, r := range []int{1, 7, 8, 9, 40, 45} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(r), 0))
			normals := func(rows, cols int) *mat.Dense {
				out := mat.NewDense(rows, cols, nil)
				out.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, out)
				return out
			}
			b, x := normals(r/2+2, r), normals(r, columns)
			gram, m := mat.NewSymDense(r, nil), mat.NewSymDense(r, nil)
			gram.SymOuterK(1, b.T())
			m.CopySym(gram)
			for i := range r {
				m.SetSym(i, i, m.At(i, i)+noise)
			}
			upper := mat.DenseCopyOf(gram)
			for i := range r {
				for j := range i {
					upper.Set(i, j, math.NaN())
				}
			}
			linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
				s := compute.NewScope(b)
				defer s.Release()
				c := Factor{backend: b, factor: s.New(r, r), width: width}
				if !c.factorize(upload(s, upper), noise) {
					t.Fatal("not positive definite")
				}
				compareCholesky(t, s, c, m, x)
				part := (r + 1) / 2
				compareCholesky(t, s, c.Leading(part), m.SliceSym(0, part), x.Slice(0, part, 0, columns))
			})
		})
	}
}

// compareCholesky compares c with gonum's factor of m.
func compareCholesky(t *testing.T, s *compute.Scope, c Factor, m mat.Symmetric, x mat.Matrix) {
	t.Helper()
	var twin mat.Cholesky
	if !twin.Factorize(m) {
		t.Fatal("the twin's matrix is not positive definite")
	}
	var upper, root mat.TriDense
	twin.UTo(&upper)
	if err := root.InverseTri(&upper); err != nil {
		t.Fatal(err)
	}
	var inverse, solution, white mat.Dense
	inverse.Mul(&root, root.T())
	solution.Mul(&inverse, x)
	white.Mul(root.T(), x)

	compare := func(what string, got compute.Block, want mat.Matrix) {
		t.Helper()
		var difference mat.Dense
		difference.Sub(mat.NewDense(got.Rows, got.Cols, compute.ToSlice(s.Backend(), got)), want)
		if e := mat.Norm(&difference, 2) / mat.Norm(want, 2); !(e <= 1e-10) {
			t.Errorf("%s: relative error %.2g", what, e)
		}
	}
	if got, want := c.LogDet(), twin.LogDet(); !(math.Abs(got-want) <= 1e-12*math.Abs(want)) {
		t.Errorf("log det M is %g, want %g", got, want)
	}
	compare("R^-1", c.Root(s), &root)
	compare("M^-1", c.Inverse(s), &inverse)
	solved, whitened := upload(s, x), upload(s, x)
	c.Solve(solved)
	compare("M^-1 x", solved, &solution)
	c.Whiten(whitened)
	compare("R'^-1 x", whitened, &white)
}

// upload puts a host matrix into s.
func upload(s *compute.Scope, x mat.Matrix) compute.Block {
	rows, cols := x.Dims()
	return s.FromSlice(rows, cols, mat.DenseCopyOf(x).RawMatrix().Data)
}

// A matrix that rounding made indefinite, in its first block or its last, overflowed, or too
// large beside the noise, is an error that says how large.
func TestNotPositiveDefinite(t *testing.T) {
	for _, r := range []int{3, 3*blockWidth + 5} {
		for _, c := range []struct {
			name           string
			row            int
			element, noise float64
			largest        float64
		}{
			{"first pivot", 0, -1, 0.5, 1.5},
			{"last pivot", r - 1, -0.5, 0.5, 1.5},
			{"not a number", r / 2, math.NaN(), 0.5, math.NaN()},
			{"overflow", r / 2, math.Inf(1), 0.5, math.Inf(1)},
			{"noise does not count", r / 2, 1e14, 1e-2, 1e14},
		} {
			t.Run(fmt.Sprintf("%s/%d", c.name, r), func(t *testing.T) {
				linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
					s := compute.NewScope(b)
					defer s.Release()
					gram := s.Identity(r)
					compute.Fill(b, gram.View(c.row, c.row+1, c.row, c.row+1), c.element)
					_, err := Factorize(s, gram, c.noise)
					var e *NotPositiveDefiniteError
					if !errors.As(err, &e) {
						t.Fatalf("error %v, want a *NotPositiveDefiniteError", err)
					}
					same := math.Abs(e.LargestElement-c.largest) <= 1e-12*c.largest || e.LargestElement == c.largest ||
						math.IsNaN(e.LargestElement) && math.IsNaN(c.largest)
					if e.Size != r || e.Noise != c.noise || !same {
						t.Errorf("%+v, want size %d, noise %g, largest element %g", e, r, c.noise, c.largest)
					}
				})
			})
		}
	}
}
