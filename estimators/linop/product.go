package linop

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Product is A B, for a few products with it, which cost less than multiplying it out.
type Product struct {
	b           compute.Backend
	left, right Operator
}

// NewProduct returns the product of two operators, which it retains.
func NewProduct(b compute.Backend, left, right Operator) *Product {
	_, inner := left.Dims()
	if rows, cols := right.Dims(); rows != inner {
		panic(fmt.Sprintf("linop: product of an operator of %d columns and a %d × %d one", inner, rows, cols))
	}
	return &Product{b, left, right}
}

// Dims implements [Operator].
func (a *Product) Dims() (rows, cols int) {
	rows, _ = a.left.Dims()
	_, cols = a.right.Dims()
	return rows, cols
}

// MulTo implements [Operator].
func (a *Product) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Product", a, dst, x, trans)
	s := compute.NewScope(a.b)
	defer s.Release()
	if trans {
		a.right.MulTo(dst, Mul(s, a.left, x, true), true)
		return
	}
	a.left.MulTo(dst, Mul(s, a.right, x, false), false)
}
