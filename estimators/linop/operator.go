package linop

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Operator is a rows × cols matrix known by its products with blocks of columns.
// An operator keeps the backend that its blocks belong to.
type Operator interface {
	// Dims is the matrix's size.
	Dims() (rows, cols int)
	// MulTo sets dst to A x, with trans to A'x: dst is rows × k and x cols × k, the
	// other way round with trans, for any k. They may not overlap. Shapes that do
	// not fit panic.
	MulTo(dst, x compute.Block, trans bool)
}

// Multiply sets dst to A x for a symmetric matrix A of order n; both are n × k, for any k.
// It stands for a matrix whose products may fail, because they take solutions themselves.
type Multiply func(dst, x compute.Block) error

// Products returns the products of a symmetric operator, which never fail.
func Products(a Operator) Multiply {
	return func(dst, x compute.Block) error {
		a.MulTo(dst, x, false)
		return nil
	}
}

// Mul allocates A x, with trans A'x, in s.
func Mul(s *compute.Scope, a Operator, x compute.Block, trans bool) compute.Block {
	rows, cols := a.Dims()
	if trans {
		rows = cols
	}
	dst := s.New(rows, x.Cols)
	a.MulTo(dst, x, trans)
	return dst
}

// MulOut allocates the elements of a in s: A times the identity.
func MulOut(s *compute.Scope, a Operator) compute.Block {
	_, cols := a.Dims()
	return Mul(s, a, s.Identity(cols), false)
}

// checkMul panics, naming the operator, unless dst and x suit a.MulTo.
func checkMul(name string, a Operator, dst, x compute.Block, trans bool) {
	rows, cols := a.Dims()
	op := name
	if trans {
		rows, cols = cols, rows
		op += " transposed"
	}
	if x.Rows != cols || dst.Rows != rows || dst.Cols != x.Cols {
		panic(fmt.Sprintf("linop: %s (%d × %d) times a %s block to a %s block", op, rows, cols, x.Shape(), dst.Shape()))
	}
}

// squareSize returns the order of a square operator.
func squareSize(use string, a Operator) int {
	rows, cols := a.Dims()
	if rows != cols {
		panic(fmt.Sprintf("linop: %s of a %d × %d operator", use, rows, cols))
	}
	return rows
}
