package linop

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Operator is a rows × cols matrix that is represented by its products with blocks of
// columns. An operator retains the backend of its blocks.
type Operator interface {
	// Dims returns the size of the matrix.
	Dims() (rows, cols int)
	// MulTo sets dst to A x, or to A'x if trans is set. For any k, dst is rows × k and x
	// is cols × k, or the reverse if trans is set. They must not overlap. MulTo panics if
	// the shapes do not match.
	MulTo(dst, x compute.Block, trans bool)
}

// Multiply sets dst to A x for a symmetric matrix A of order n; both are n × k, for any k.
// It represents a matrix whose products may fail, because they solve equations themselves.
type Multiply func(dst, x compute.Block) error

// Products returns the products of a symmetric operator, which never fail.
func Products(a Operator) Multiply {
	return func(dst, x compute.Block) error {
		a.MulTo(dst, x, false)
		return nil
	}
}

// Mul returns A x, or A'x if trans is set, allocated in s.
func Mul(s *compute.Scope, a Operator, x compute.Block, trans bool) compute.Block {
	rows, cols := a.Dims()
	if trans {
		rows = cols
	}
	dst := s.New(rows, x.Cols)
	a.MulTo(dst, x, trans)
	return dst
}

// MulOut returns the elements of a, as A times the identity, allocated in s.
func MulOut(s *compute.Scope, a Operator) compute.Block {
	_, cols := a.Dims()
	return Mul(s, a, s.Identity(cols), false)
}

// checkMul panics, naming the operator, unless dst and x have the shapes that a.MulTo requires.
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
