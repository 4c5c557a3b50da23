package compute

// Backend allocates blocks and computes on them. Shapes that do not fit panic, and
// a device that fails panics with a [*Failure]: see [Catch]. Unless said otherwise
// dst may be the same block as an argument but must not overlap it in part.
//
// The methods of a distant backend are called from one goroutine at a time, those of
// another from any; inside [Backend.Panels] the body uses the backend it is given.
type Backend interface {
	// Name describes the device, as in "cpu (OpenBLAS, 2 cores)".
	Name() string
	// Distant reports whether a Download takes long: some hundred times as long as
	// starting an operation. Loops then inspect results only every few iterations.
	Distant() bool

	// Alloc returns a buffer of n elements with undefined contents, from the backend's
	// pool if it has one.
	Alloc(n int) Buffer
	// Release returns a buffer to the backend; its blocks must no longer be used.
	Release(Buffer)
	// Upload copies the row-major src into dst.
	Upload(dst Block, src []float64)
	// Download copies src into the row-major dst.
	Download(dst []float64, src Block)

	// NumPanels returns the number of ranges into which Panels divides rows: a
	// function of rows alone.
	NumPanels(rows int) int
	// Panels calls body for consecutive ranges [lo, hi) that cover [0, rows), in
	// any order and perhaps at the same time. The body computes with the backend b
	// it is given, writes only its own rows (and row panel of a [Partials]), and
	// releases what it allocates. Panels inside a body run in the calling goroutine.
	Panels(rows int, body func(b Backend, panel, lo, hi int))

	Elementwise
	Reductions
	Products
	Networks
	Interpolation
	Sketches
}

// Elementwise operations. [Fill], [Copy], [Scale] and [Axpy] are special cases of
// Affine.
type Elementwise interface {
	// Affine sets dst to alpha*x + beta*dst + shift. Operands with the coefficient 0 are
	// not read, and a shift of 0 is not added, so that zeros keep their signs. A single
	// row x is broadcast to all rows.
	Affine(dst Block, alpha float64, x Block, beta, shift float64)
	// Mul sets dst to w*x + beta*dst, where w*x is the elementwise product. With
	// beta = 0, the old contents of dst do not matter. A single row or column w is
	// broadcast.
	Mul(dst, w, x Block, beta float64)
	// DivideWhere sets dst to a/b, or to 0 where x <= y, regardless of a and b there.
	DivideWhere(dst, a, b, x, y Block)
}

// Reductions are sums in a fixed order, and extremes.
type Reductions interface {
	// Dot returns the sum over i, j of x_ij*y_ij.
	Dot(x, y Block) float64
	// RowDots sets dst_i to beta*dst_i + sum_j a_ij*b_ij; dst is n × 1.
	RowDots(dst, a, b Block, beta float64)
	// ColDots sets dst_j to sum_i x_ij*y_ij; dst is 1 × k.
	ColDots(dst, x, y Block)
	// SumRows sets the 1 × k block dst to the sum of x's rows, in row order.
	SumRows(dst, x Block)
	// Extremes returns the smallest and the largest element of x, and of several equal
	// ones the first in row-major order.
	Extremes(x Block) (min, max Extreme)
}

// Extreme is an element's value and position.
type Extreme struct {
	Value    float64
	Row, Col int
}

// Products are dense matrix products.
type Products interface {
	// Gemm sets c to alpha*op(a)*op(b) + beta*c, where op transposes if the flag
	// is set. With beta = 0, the old contents of c do not matter. c must not overlap a or b.
	Gemm(transA, transB bool, alpha float64, a, b Block, beta float64, c Block)
	// Gram sets the k × k block dst to x'x.
	Gram(dst, x Block)
}

// Networks are the elementwise operations of a tanh network's passes, besides Gemm.
type Networks interface {
	// Tanh sets z to tanh(z + bias); bias is 1 × k.
	Tanh(z, bias Block)
	// TanhGrad multiplies d by 1 - h*h, the derivative at h = tanh(z): the
	// backward pass and the forward tangent alike.
	TanhGrad(d, h Block)
}

// Grid is a one-dimensional grid of Size points Low, Low+Step, ...
type Grid struct {
	Low, Step float64
	Size      int
}

// Interpolation is local cubic convolution (Keys 1981) of values on a grid: row i
// of the sparse n × Size matrix W(z) holds the weights of the four grid points around
// z_i. Elements of z outside [Low+Step, Low+(Size-2)*Step] are moved to its ends.
type Interpolation interface {
	// Interpolate sets dst to op(W(z)) x, where op transposes if the flag is set; z is
	// n × 1. It maps values x on the grid (Size × r) to values at the z (n × r).
	Interpolate(trans bool, dst, z, x Block, g Grid)
	// InterpolateGrad sets dst_i (n × 1) to the derivative of sum_k c_ik (W(z)
	// table)_ik in z_i; c is n × r.
	InterpolateGrad(dst, z, table, c Block, g Grid)
	// InterpolateGram sets dst (d Size × d Size) to W'W for the n × d Size matrix
	// W = [W(z_1), ..., W(z_d)] of z's columns.
	InterpolateGram(dst, z Block, g Grid)
	// InterpolateGramGrad sets dst_ij (n × d) to the derivative of half of w_i'Q w_i
	// in z_ij, where w_i' is row i of that W and the d Size × d Size block q, Q, is
	// symmetric.
	InterpolateGramGrad(dst, z, q Block, g Grid)
}

// Groups is a partition of n rows into len(Bounds)-1 groups: group g has the rows
// Order[Bounds[g]:Bounds[g+1]], each with the sign Signs[row]. It must not be changed
// after its first use, since backends may cache a copy on the device by its pointer.
type Groups struct {
	Order  []int32
	Bounds []int32
	Signs  []float64
}

// Len returns the number of groups.
func (g *Groups) Len() int { return len(g.Bounds) - 1 }

// Sketches are signed sums over groups of rows.
type Sketches interface {
	// GroupOuter sets row g of dst (groups × d.Cols*h.Cols) to the sum, over the
	// group's rows i, of sign_i d_i h_i', row-major.
	GroupOuter(dst, d, h Block, g *Groups)
	// GroupSum sets row g of dst (groups × k) to the sum of sign_i x_i.
	GroupSum(dst, x Block, g *Groups)
}
