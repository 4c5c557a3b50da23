package cpu

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// The operations of serial on networks, grids and groups of rows.

func (s *serial) Tanh(z, bias compute.Block) {
	checkRow("tanh", bias, z)
	if e := elements(z); e != nil {
		tanh(e, z.Stride, elements(bias), z.Rows, z.Cols)
	}
}

func (s *serial) TanhGrad(d, h compute.Block) {
	compute.SameShape("tanh gradient", d, h)
	if e := elements(d); e != nil {
		tanhGrad(e, d.Stride, elements(h), h.Stride, d.Rows, d.Cols)
	}
}

func (s *serial) Interpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	checkInterpolate(trans, dst, z, x, g)
	switch {
	case x.Rows == 0:
		compute.Fill(s, dst, 0)
	case elements(dst) == nil:
	case trans:
		interpolateTrans(elements(dst), dst.Stride, elements(z), z.Stride, elements(x), x.Stride, g, x.Rows, x.Cols)
	default:
		interpolate(elements(dst), dst.Stride, elements(z), z.Stride, elements(x), x.Stride, g, dst.Rows, dst.Cols)
	}
}

func (s *serial) InterpolateGrad(dst, z, table, c compute.Block, g compute.Grid) {
	checkGrid("interpolation gradient", g, table)
	checkColumn("interpolation gradient", z, c)
	checkColumn("interpolation gradient", dst, c)
	checkRow("interpolation gradient", table.Row(0), c)
	if c.Cols == 0 {
		compute.Fill(s, dst, 0)
		return
	}
	if e := elements(dst); e != nil {
		interpolateGrad(e, dst.Stride, elements(z), z.Stride, elements(table), table.Stride, elements(c), c.Stride, g,
			c.Rows, c.Cols)
	}
}

func (s *serial) InterpolateGram(dst, z compute.Block, g compute.Grid) {
	checkGridBlocks("interpolation gram", g, dst, z)
	for i := range z.Cols {
		for j := i; j < z.Cols; j++ {
			s.interpolateGram(dst, z, g, i, j)
		}
	}
}

// interpolateGram sets blocks (i, j) and (j, i) of dst.
func (s *serial) interpolateGram(dst, z compute.Block, g compute.Grid, i, j int) {
	upper := gridBlock(dst, g, i, j)
	if z.Rows == 0 {
		compute.Fill(s, upper, 0)
		compute.Fill(s, gridBlock(dst, g, j, i), 0)
		return
	}
	interpolateGram(elements(upper), dst.Stride, elements(z.Col(i)), elements(z.Col(j)), z.Stride, g, z.Rows)
	if i == j {
		return
	}
	to, from := elements(gridBlock(dst, g, j, i)), elements(upper)
	for p := range g.Size {
		for q := range g.Size {
			to[q*dst.Stride+p] = from[p*dst.Stride+q]
		}
	}
}

func (s *serial) InterpolateGramGrad(dst, z, q compute.Block, g compute.Grid) {
	checkGridBlocks("interpolation gram gradient", g, q, z)
	compute.SameShape("interpolation gram gradient", dst, z)
	for i := range z.Cols {
		s.interpolateGramGrad(dst, z, q, g, i)
	}
}

// interpolateGramGrad sets column i of dst.
func (s *serial) interpolateGramGrad(dst, z, q compute.Block, g compute.Grid, i int) {
	compute.Fill(s, dst.Col(i), 0)
	if z.Rows == 0 {
		return
	}
	for j := range z.Cols {
		interpolateGramGrad(elements(dst.Col(i)), dst.Stride, elements(z.Col(i)), elements(z.Col(j)), z.Stride,
			elements(gridBlock(q, g, i, j)), q.Stride, g, z.Rows)
	}
}

// gridBlock returns block (i, j) of a matrix of Size × Size blocks.
func gridBlock(x compute.Block, g compute.Grid, i, j int) compute.Block {
	return x.View(i*g.Size, (i+1)*g.Size, j*g.Size, (j+1)*g.Size)
}

func checkGridBlocks(op string, g compute.Grid, square, z compute.Block) {
	if square.Rows != z.Cols*g.Size || square.Cols != square.Rows || g.Size < 4 || !(g.Step > 0) ||
		math.IsInf(g.Low, 0) {
		panic(fmt.Sprintf("cpu: %s of a %s block, positions %s and the grid %+v", op, square.Shape(), z.Shape(), g))
	}
}

func (s *serial) GroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	checkGroupOuter(dst, d, h, g)
	s.groupOuter(dst, d, h, g, 0, g.Len())
}

func checkGroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	if dst.Rows != g.Len() || dst.Cols != d.Cols*h.Cols || d.Rows != h.Rows || len(g.Signs) != d.Rows ||
		len(g.Order) != d.Rows {
		panic(fmt.Sprintf("cpu: outer products of a %s and a %s block in %d groups of %d rows to a %s block",
			d.Shape(), h.Shape(), g.Len(), len(g.Order), dst.Shape()))
	}
}

// groupOuter is GroupOuter for the groups [lo, hi); dst has only their rows.
func (s *serial) groupOuter(dst, d, h compute.Block, g *compute.Groups, lo, hi int) {
	e := elements(dst)
	if e == nil || d.Rows == 0 {
		compute.Fill(s, dst, 0)
		return
	}
	largest := 0
	for i := lo; i < hi; i++ {
		largest = max(largest, int(g.Bounds[i+1]-g.Bounds[i]))
	}
	scope := compute.NewScope(s)
	defer scope.Release()
	scratch := elements(scope.New(1, max(1, largest*(d.Cols+h.Cols))))
	groupOuter(e, dst.Stride, elements(d), d.Stride, elements(h), h.Stride, g, lo, hi, d.Cols, h.Cols, scratch)
}

func (s *serial) GroupSum(dst, x compute.Block, g *compute.Groups) {
	checkGroupSum(dst, x, g)
	s.groupSum(dst, x, g, 0, g.Len())
}

func checkGroupSum(dst, x compute.Block, g *compute.Groups) {
	if dst.Rows != g.Len() || dst.Cols != x.Cols || len(g.Signs) != x.Rows || len(g.Order) != x.Rows {
		panic(fmt.Sprintf("cpu: sums of a %s block in %d groups of %d rows to a %s block",
			x.Shape(), g.Len(), len(g.Order), dst.Shape()))
	}
}

// groupSum is GroupSum for the groups [lo, hi); dst has only their rows.
func (s *serial) groupSum(dst, x compute.Block, g *compute.Groups, lo, hi int) {
	e := elements(dst)
	if e == nil || x.Rows == 0 {
		compute.Fill(s, dst, 0)
		return
	}
	groupSum(e, dst.Stride, elements(x), x.Stride, g, lo, hi, x.Cols)
}
