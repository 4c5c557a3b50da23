package linop

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Inverse is A^-1 of a symmetric positive definite operator A, known by its products
// like any other: each is a solution by conjugate gradients.
//
// The solutions are good to the method's tolerance alone, and so the operator is
// linear and symmetric only to that: who iterates with it, as conjugate gradients
// around it do, asks for a tolerance well above this one.
type Inverse struct {
	b     compute.Backend
	a     Operator
	cg    CG
	err   error
	count int
}

// NewInverse makes the inverse of a, which it keeps, by the given method.
func NewInverse(b compute.Backend, a Operator, method CG) *Inverse {
	squareSize("the inverse", a)
	return &Inverse{b: b, a: a, cg: method}
}

// Dims implements [Operator].
func (v *Inverse) Dims() (rows, cols int) { return v.a.Dims() }

// MulTo implements [Operator]. Where the solution fails dst is filled with NaN, which
// whoever iterates with the product notices, and [Inverse.Err] says why.
func (v *Inverse) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Inverse", v, dst, x, trans)
	result, err := v.cg.Solve(v.b, v.a, dst, x)
	v.count += result.Iterations
	if err != nil {
		compute.Fill(v.b, dst, math.NaN())
		if v.err == nil {
			v.err = err
		}
	}
}

// Err is the error of the first product that failed, if one did.
func (v *Inverse) Err() error { return v.err }

// Iterations is the number of products with A so far, one for a block of columns.
func (v *Inverse) Iterations() int { return v.count }
