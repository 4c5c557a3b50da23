package linop

import (
	"cmp"
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// CG solves A x = b for a symmetric positive definite A by conjugate gradients (Hestenes
// and Stiefel 1952). The zero value has the paper's settings.
type CG struct {
	// MaxIterations is the maximum number of products with A; 0 means 50.
	MaxIterations int
	// Tolerance is the squared relative residual |b - A x|^2 / |b|^2 at which a column
	// has converged; 0 means 1e-10.
	Tolerance float64
	// Preconditioner approximates the inverse of A, and is symmetric positive
	// definite itself; nil means none.
	Preconditioner Operator
}

// Result describes the accuracy of a solution.
type Result struct {
	// Iterations is the number of products with A.
	Iterations int
	// Residual is the largest squared relative residual of a column, as updated by the
	// iteration.
	Residual float64
}

// NotConvergedError reports that a solver reached its maximum number of iterations. The
// solution so far is in place and may be accurate enough.
type NotConvergedError struct {
	Result
	Tolerance float64
}

// Error implements error.
func (e *NotConvergedError) Error() string {
	return fmt.Sprintf("conjugate gradients reached a squared relative residual of %.3g, not %.3g, in %d iterations",
		e.Residual, e.Tolerance, e.Iterations)
}

// BreakdownError reports that a squared length is not positive, because the operator or
// the preconditioner is not positive definite, or not finite.
type BreakdownError struct {
	Iteration, Column int
	// What names the quantity that should be positive, and Value is its value.
	What  string
	Value float64
}

// Error implements error.
func (e *BreakdownError) Error() string {
	return fmt.Sprintf("conjugate gradients broke down in iteration %d, column %d: %s is %g, so the "+
		"matrix is not positive definite",
		e.Iteration, e.Column, e.What, e.Value)
}

// Solve sets dst to the solution of A dst = rhs, starting from zero; b is the
// backend of all three. Each column has its own step sizes and stops when it is
// done; A is applied to all of them at once. The error is a [*NotConvergedError] or
// a [*BreakdownError]. dst may be rhs.
func (c CG) Solve(b compute.Backend, a Operator, dst, rhs compute.Block) (Result, error) {
	if n := squareSize("conjugate gradients", a); n != rhs.Rows {
		panic(fmt.Sprintf("linop: conjugate gradients with an operator of order %d and a %s right-hand side", n,
			rhs.Shape()))
	}
	return c.SolveFunc(b, Products(a), dst, rhs)
}

// SolveFunc is Solve for a matrix that is given by its products a. The first product that fails
// ends it, and its error is the solution's.
func (c CG) SolveFunc(b compute.Backend, a Multiply, dst, rhs compute.Block) (Result, error) {
	compute.SameShape("conjugate gradients", dst, rhs)
	c.MaxIterations = cmp.Or(c.MaxIterations, 50)
	c.Tolerance = cmp.Or(c.Tolerance, 1e-10)
	s := compute.NewScope(b)
	defer s.Release()
	it := newIteration(s, c, a, dst, rhs)
	done, err := it.start()
	for !done && err == nil {
		if it.taken == c.MaxIterations {
			return it.seen.Result, &NotConvergedError{it.seen.Result, c.Tolerance}
		}
		done, err = it.step()
	}
	return it.seen.Result, err
}

// iteration is the state of the method. Each right-hand side has a column in the blocks.
// Step sizes are computed by the backend; the host sees them only when it reads the
// history.
type iteration struct {
	CG
	b      compute.Backend
	a      Multiply
	x      compute.Block // the solution
	r      compute.Block // its residual b - A x
	z      compute.Block // the preconditioned residual M r
	p, q   compute.Block // the direction and A p
	work   compute.Block
	bound  compute.Block // 1 × k: the largest r'r of a column that has converged
	factor compute.Block // 1 × k
	taken  int           // number of steps taken
	seen   *history
}

func newIteration(s *compute.Scope, c CG, a Multiply, x, rhs compute.Block) *iteration {
	n, k := rhs.Rows, rhs.Cols
	it := &iteration{CG: c, b: s.Backend(), a: a, x: x,
		r: s.New(n, k), p: s.New(n, k), q: s.New(n, k), work: s.New(n, k),
		bound: s.New(1, k), factor: s.New(1, k), seen: newHistory(s, c, k)}
	compute.Copy(it.b, it.r, rhs)
	it.z = it.r
	if c.Preconditioner != nil {
		it.z = s.New(n, k)
	}
	return it
}

// start sets x = 0, r = b, p = z = M r.
func (it *iteration) start() (done bool, err error) {
	compute.Fill(it.b, it.x, 0)
	it.measure()
	it.b.Affine(it.bound, it.Tolerance, it.seen.at(0).squares, 0, 0)
	if done, err = it.seen.look(0); done || err != nil {
		return done, err
	}
	it.precondition()
	compute.Copy(it.b, it.p, it.z)
	return false, nil
}

// step makes one iteration: one product with A, one with M.
func (it *iteration) step() (done bool, err error) {
	last := it.seen.at(it.taken)
	it.taken++

	// alpha = r'z / p'A p minimises the A-norm of the error along p.
	if err := it.a(it.q, it.p); err != nil {
		return false, err
	}
	it.b.ColDots(last.curvature, it.p, it.q)
	it.b.DivideWhere(it.factor, last.rho, last.curvature, last.squares, it.bound)

	// x += alpha p, r -= alpha A p. The step size is 0 for columns that have converged.
	it.b.Mul(it.x, it.factor, it.p, 1)
	compute.Scale(it.b, -1, it.factor)
	it.b.Mul(it.r, it.factor, it.q, 1)
	it.measure()
	if it.due() {
		if done, err = it.seen.look(it.taken); done || err != nil {
			return done, err
		}
	}

	// beta = r'z / (the previous r'z), p = z + beta p: A-orthogonal to the previous directions.
	it.precondition()
	now := it.seen.at(it.taken)
	it.b.DivideWhere(it.factor, now.rho, last.rho, now.squares, it.bound)
	compute.Copy(it.b, it.work, it.z)
	it.b.Mul(it.work, it.factor, it.p, 1)
	it.p, it.work = it.work, it.p
	return false, nil
}

// measure computes r'r.
func (it *iteration) measure() { it.b.ColDots(it.seen.at(it.taken).squares, it.r, it.r) }

// precondition sets z = M r and computes r'z.
func (it *iteration) precondition() {
	if it.Preconditioner != nil {
		it.Preconditioner.MulTo(it.z, it.r, false)
	}
	it.b.ColDots(it.seen.at(it.taken).rho, it.r, it.z)
}

// due reports whether to read the history: after every step where that is free, otherwise
// after every eighth step, which on average makes four superfluous steps.
func (it *iteration) due() bool {
	return !it.b.Distant() || it.taken%8 == 0 || it.taken == it.MaxIterations
}

// columnDots returns x_j'y_j for each column j.
func columnDots(b compute.Backend, x, y compute.Block) []float64 {
	sums := compute.NewBlock(b, 1, x.Cols)
	defer b.Release(sums.Buffer)
	b.ColDots(sums, x, y)
	return compute.ToSlice(b, sums)
}
