package linop

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Sum is a sum of operators of the same size.
type Sum struct {
	b     compute.Backend
	terms []Operator
}

// NewSum returns the sum of one or more operators.
func NewSum(b compute.Backend, terms ...Operator) *Sum {
	if len(terms) == 0 {
		panic("linop: a sum of no operators")
	}
	rows, cols := terms[0].Dims()
	for _, term := range terms[1:] {
		if r, c := term.Dims(); r != rows || c != cols {
			panic(fmt.Sprintf("linop: sum of a %d × %d and a %d × %d operator", rows, cols, r, c))
		}
	}
	return &Sum{b, terms}
}

// Dims implements [Operator].
func (a *Sum) Dims() (rows, cols int) { return a.terms[0].Dims() }

// MulTo implements [Operator].
func (a *Sum) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Sum", a, dst, x, trans)
	s := compute.NewScope(a.b)
	defer s.Release()
	a.terms[0].MulTo(dst, x, trans)
	if len(a.terms) == 1 {
		return
	}
	product := s.New(dst.Rows, dst.Cols)
	for _, term := range a.terms[1:] {
		term.MulTo(product, x, trans)
		compute.Axpy(a.b, 1, product, dst)
	}
}
