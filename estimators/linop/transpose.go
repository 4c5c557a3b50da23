package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Transpose is A' of an operator A.
type Transpose struct{ a Operator }

// NewTranspose makes the transpose of a, which it keeps.
func NewTranspose(a Operator) *Transpose { return &Transpose{a} }

// Dims implements [Operator].
func (t *Transpose) Dims() (rows, cols int) {
	rows, cols = t.a.Dims()
	return cols, rows
}

// MulTo implements [Operator].
func (t *Transpose) MulTo(dst, x compute.Block, trans bool) { t.a.MulTo(dst, x, !trans) }
