package linop

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// CG is the method of conjugate gradients (Hestenes and Stiefel 1952) for A x = b
// with a symmetric positive definite A. The zero value has the paper's settings.
type CG struct {
	// MaxIterations bounds the products with A; 0 means 50.
	MaxIterations int
	// Tolerance is the squared residual |b - A x|^2 / |b|^2 at which a column is
	// done; 0 means 1e-10.
	Tolerance float64
	// Preconditioner approximates the inverse of A, and is symmetric positive
	// definite itself; nil means none.
	Preconditioner Operator
}

// Result is the evidence of a solution.
type Result struct {
	// Iterations is the number of products with A.
	Iterations int
	// Residual is the largest squared relative residual of a column, as the
	// iteration carries it along.
	Residual float64
}

// NotConvergedError says that a solver ran out of iterations. The solution so far
// is in place and may be good enough.
type NotConvergedError struct {
	Result
	Tolerance float64
}

// Error implements error.
func (e *NotConvergedError) Error() string {
	return fmt.Sprintf("conjugate gradients reached a squared relative residual of %.3g, not %.3g, in %d iterations",
		e.Residual, e.Tolerance, e.Iterations)
}

// BreakdownError says that a direction has no positive length, so that the
// operator or the preconditioner is not positive definite, or not finite.
type BreakdownError struct {
	Iteration, Column int
	// What names the quantity that has to be positive, Value is what it was.
	What  string
	Value float64
}

// Error implements error.
func (e *BreakdownError) Error() string {
	return fmt.Sprintf("conjugate gradients broke down in iteration %d, column %d: %s is %g, so the matrix is not positive definite",
		e.Iteration, e.Column, e.What, e.Value)
}

// Solve sets dst to the solution of A dst = rhs, starting from zero; b is the
// backend of all three. Each column has its own step sizes and stops when it is
// done; A is applied to all of them at once. The error is a [*NotConvergedError] or
// a [*BreakdownError]. dst may be rhs.
func (c CG) Solve(b compute.Backend, a Operator, dst, rhs compute.Block) (Result, error) {
	if n := squareSize("conjugate gradients", a); n != rhs.Rows {
		panic(fmt.Sprintf("linop: conjugate gradients with an operator of order %d and a %s right-hand side", n, rhs.Shape()))
	}
	compute.SameShape("conjugate gradients", dst, rhs)
	if c.MaxIterations == 0 {
		c.MaxIterations = 50
	}
	if c.Tolerance == 0 {
		c.Tolerance = 1e-10
	}
	s := compute.NewScope(b)
	defer s.Release()
	it := newIteration(s, c, a, dst, rhs)
	if err := it.start(); err != nil {
		return it.Result, err
	}
	for it.Residual > c.Tolerance {
		if it.Iterations == c.MaxIterations {
			return it.Result, &NotConvergedError{it.Result, c.Tolerance}
		}
		if err := it.step(); err != nil {
			return it.Result, err
		}
	}
	return it.Result, nil
}

// iteration is the state of the method: a column each of the blocks, a number each
// of the slices, for a right-hand side.
type iteration struct {
	CG
	Result
	b    compute.Backend
	a    Operator
	x    compute.Block // the solution
	r    compute.Block // its residual b - A x
	z    compute.Block // the preconditioned residual M r
	p, q compute.Block // the direction and A p
	work compute.Block
	rho  []float64 // r'z
	b2   []float64 // |b|^2
	done []bool
}

func newIteration(s *compute.Scope, c CG, a Operator, x, rhs compute.Block) *iteration {
	n, k := rhs.Rows, rhs.Cols
	it := &iteration{CG: c, b: s.Backend(), a: a, x: x,
		r: s.New(n, k), p: s.New(n, k), q: s.New(n, k), work: s.New(n, k)}
	it.b.Copy(it.r, rhs)
	it.z = it.r
	if c.Preconditioner != nil {
		it.z = s.New(n, k)
	}
	return it
}

// start sets x = 0, r = b, p = z = M r, rho = r'z.
func (it *iteration) start() error {
	it.b2 = columnDots(it.b, it.work, it.r, it.r)
	it.b.Fill(it.x, 0)
	it.done = make([]bool, it.r.Cols)
	if err := it.measure(); err != nil {
		return err
	}
	it.precondition()
	it.b.Copy(it.p, it.z)
	it.rho = columnDots(it.b, it.work, it.r, it.z)
	return it.wantPositive("r'M r", it.rho)
}

// step is one iteration: one product with A, one with M.
func (it *iteration) step() error {
	it.Iterations++

	// alpha = r'z / p'A p, the minimum of the error's A-norm along p.
	it.a.MulTo(it.q, it.p, false)
	alpha := columnDots(it.b, it.work, it.p, it.q)
	if err := it.wantPositive("p'A p", alpha); err != nil {
		return err
	}
	minus := make([]float64, len(alpha))
	for j, curvature := range alpha {
		if alpha[j] = 0; !it.done[j] {
			alpha[j] = it.rho[j] / curvature
		}
		minus[j] = -alpha[j]
	}

	// x += alpha p, r -= alpha A p.
	addColumns(it.b, it.x, it.p, alpha)
	addColumns(it.b, it.r, it.q, minus)
	if err := it.measure(); err != nil || it.Residual <= it.Tolerance {
		return err
	}

	// beta = r'z / (the last r'z), p = z + beta p: A-orthogonal to those before.
	it.precondition()
	rho := columnDots(it.b, it.work, it.r, it.z)
	if err := it.wantPositive("r'M r", rho); err != nil {
		return err
	}
	beta := make([]float64, len(rho))
	for j := range beta {
		if !it.done[j] {
			beta[j] = rho[j] / it.rho[j]
		}
	}
	it.rho = rho
	it.b.Copy(it.work, it.z)
	addColumns(it.b, it.work, it.p, beta)
	it.p, it.work = it.work, it.p
	return nil
}

// precondition sets z = M r.
func (it *iteration) precondition() {
	if it.Preconditioner != nil {
		it.Preconditioner.MulTo(it.z, it.r, false)
	}
}

// measure finds the columns that are done and the largest residual.
func (it *iteration) measure() error {
	it.Residual = 0
	for j, r2 := range columnDots(it.b, it.work, it.r, it.r) {
		relative := r2 / it.b2[j]
		if it.b2[j] == 0 {
			relative = 0 // and x = 0 solves it
		}
		if math.IsNaN(relative) || math.IsInf(r2, 0) {
			return &BreakdownError{it.Iterations, j, "the squared residual", r2}
		}
		it.done[j] = relative <= it.Tolerance
		it.Residual = max(it.Residual, relative)
	}
	return nil
}

// wantPositive checks a quantity of each column that is not done.
func (it *iteration) wantPositive(what string, values []float64) error {
	for j, v := range values {
		if !it.done[j] && (!(v > 0) || math.IsInf(v, 0)) {
			return &BreakdownError{it.Iterations, j, what, v}
		}
	}
	return nil
}

// columnDots returns x_j'y_j for each column j; work has their shape.
func columnDots(b compute.Backend, work, x, y compute.Block) []float64 {
	if x.Cols == 1 {
		return []float64{b.Dot(x, y)}
	}
	sums := compute.NewBlock(b, 1, x.Cols)
	defer b.Release(sums.Buffer)
	b.Mul(work, x, y)
	b.SumRows(sums, work)
	return compute.ToSlice(b, sums)
}

// addColumns adds factor_j x_j to each column y_j.
func addColumns(b compute.Backend, y, x compute.Block, factors []float64) {
	if x.Cols == 1 {
		b.Axpy(factors[0], x, y)
		return
	}
	s := compute.NewScope(b)
	defer s.Release()
	b.Gemm(false, false, 1, x, s.Diagonal(factors), 1, y)
}
