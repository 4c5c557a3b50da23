package compute

import "fmt"

// Buffer is memory that belongs to a backend. Only the backend that allocated it can
// access its elements.
type Buffer interface {
	// Len returns the number of float64 in the buffer.
	Len() int
}

// Block is a dense Rows × Cols matrix in row-major order: element (i, j) is
// element Offset + i*Stride + j of Buffer. It is a value; copies and views share
// the buffer.
type Block struct {
	Buffer     Buffer
	Offset     int
	Rows, Cols int
	Stride     int
}

// NewBlock allocates a rows × cols block with undefined contents. Prefer a [Scope],
// which also releases its blocks.
func NewBlock(b Backend, rows, cols int) Block {
	if rows < 0 || cols < 0 {
		panic(fmt.Sprintf("compute: NewBlock of %d × %d", rows, cols))
	}
	return Block{Buffer: b.Alloc(rows * cols), Rows: rows, Cols: cols, Stride: cols}
}

// FromSlice allocates a block and uploads src (row-major, rows*cols long) to it.
func FromSlice(b Backend, rows, cols int, src []float64) Block {
	x := NewBlock(b, rows, cols)
	b.Upload(x, src)
	return x
}

// ToSlice downloads a block into a new row-major slice.
func ToSlice(b Backend, x Block) []float64 {
	dst := make([]float64, x.Rows*x.Cols)
	b.Download(dst, x)
	return dst
}

// View returns the sub-matrix of rows [row0, row1) and columns [col0, col1).
func (x Block) View(row0, row1, col0, col1 int) Block {
	if row0 < 0 || row1 < row0 || row1 > x.Rows || col0 < 0 || col1 < col0 || col1 > x.Cols {
		panic(fmt.Sprintf("compute: view [%d:%d, %d:%d] of a %v block", row0, row1, col0, col1, x.Shape()))
	}
	return Block{x.Buffer, x.Offset + row0*x.Stride + col0, row1 - row0, col1 - col0, x.Stride}
}

// RowRange returns the view of rows [i, j).
func (x Block) RowRange(i, j int) Block { return x.View(i, j, 0, x.Cols) }

// ColRange returns the view of columns [i, j).
func (x Block) ColRange(i, j int) Block { return x.View(0, x.Rows, i, j) }

// Row returns the 1 × Cols view of row i.
func (x Block) Row(i int) Block { return x.View(i, i+1, 0, x.Cols) }

// Col returns the Rows × 1 view of column j.
func (x Block) Col(j int) Block { return x.View(0, x.Rows, j, j+1) }

// Diagonal returns the view of the diagonal as a column.
func (x Block) Diagonal() Block {
	return Block{x.Buffer, x.Offset, min(x.Rows, x.Cols), 1, x.Stride + 1}
}

// EveryRow returns the view of rows 0, step, 2 step, ...
func (x Block) EveryRow(step int) Block {
	if step < 1 {
		panic(fmt.Sprintf("compute: every %d-th row of a %v block", step, x.Shape()))
	}
	return Block{x.Buffer, x.Offset, (x.Rows + step - 1) / step, x.Cols, step * x.Stride}
}

// Reshape returns the rows × cols matrix over the same elements in the same order; x
// must be contiguous.
func (x Block) Reshape(rows, cols int) Block {
	if !x.Contiguous() || rows*cols != x.Rows*x.Cols {
		panic(fmt.Sprintf("compute: reshape of a %v block (stride %d) to %d × %d", x.Shape(), x.Stride, rows, cols))
	}
	return Block{x.Buffer, x.Offset, rows, cols, cols}
}

// Contiguous reports whether the elements follow one another without gaps.
func (x Block) Contiguous() bool { return x.Stride == x.Cols || x.Rows <= 1 }

// Shape returns the block's size for messages, as in "15000 × 64".
func (x Block) Shape() string { return fmt.Sprintf("%d × %d", x.Rows, x.Cols) }

// SameShape panics, naming operation op, unless all blocks have x's shape.
func SameShape(op string, x Block, others ...Block) {
	for _, y := range others {
		if x.Rows != y.Rows || x.Cols != y.Cols {
			panic(fmt.Sprintf("compute: %s of a %s and a %s block", op, x.Shape(), y.Shape()))
		}
	}
}

// Broadcast returns the strides, from row to row and from column to column, with which x
// is read as a block of dst's shape: 0 along a side where x has a single row or column and
// dst has more. It panics, naming operation op, where another side is not dst's.
func Broadcast(op string, dst, x Block) (rows, cols int) {
	rows, cols = x.Stride, 1
	if x.Rows == 1 && dst.Rows != 1 {
		rows, x.Rows = 0, dst.Rows
	}
	if x.Cols == 1 && dst.Cols != 1 {
		cols, x.Cols = 0, dst.Cols
	}
	SameShape(op, dst, x)
	return rows, cols
}

// BroadcastRow is [Broadcast] for an x that may be a single row but not a single column.
func BroadcastRow(op string, dst, x Block) (stride int) {
	if x.Rows == 1 && x.Cols == dst.Cols {
		return 0
	}
	SameShape(op, dst, x)
	return x.Stride
}

// Flat returns the size at which to iterate over the elements of blocks of one shape: a
// single row if all of them are contiguous.
func Flat(x Block, others ...Block) (rows, cols int) {
	for _, y := range others {
		if !y.Contiguous() {
			return x.Rows, x.Cols
		}
	}
	if !x.Contiguous() {
		return x.Rows, x.Cols
	}
	return 1, x.Rows * x.Cols
}
