package compute

import "slices"

// Scope allocates blocks and releases them together.
//
//	s := compute.NewScope(b)
//	defer s.Release()
//	x := s.New(n, k)
type Scope struct {
	backend Backend
	buffers []Buffer
}

// NewScope returns an empty scope over b.
func NewScope(b Backend) *Scope { return &Scope{backend: b} }

// Backend returns the backend that the scope allocates from.
func (s *Scope) Backend() Backend { return s.backend }

// New allocates a rows × cols block with undefined contents.
func (s *Scope) New(rows, cols int) Block {
	x := NewBlock(s.backend, rows, cols)
	s.buffers = append(s.buffers, x.Buffer)
	return x
}

// FromSlice allocates a rows × cols block with the row-major contents src.
func (s *Scope) FromSlice(rows, cols int, src []float64) Block {
	x := s.New(rows, cols)
	s.backend.Upload(x, src)
	return x
}

// Diagonal allocates the square matrix with these elements on its diagonal.
func (s *Scope) Diagonal(elements []float64) Block {
	n := len(elements)
	x := make([]float64, n*n)
	for i, v := range elements {
		x[i*n+i] = v
	}
	return s.FromSlice(n, n, x)
}

// Identity allocates the unit matrix of order n.
func (s *Scope) Identity(n int) Block { return s.Diagonal(slices.Repeat([]float64{1}, n)) }

// Release returns all the scope's blocks to the backend.
func (s *Scope) Release() {
	for _, buffer := range s.buffers {
		s.backend.Release(buffer)
	}
	s.buffers = s.buffers[:0]
}

// Partials holds one rows × cols summand per panel, so that concurrent panels can each
// sum over their own rows.
type Partials struct {
	all        Block // panels × rows*cols
	rows, cols int
}

// NewPartials allocates the summands, in s, for Panels over n rows.
func NewPartials(s *Scope, n, rows, cols int) Partials {
	return Partials{s.New(s.backend.NumPanels(n), rows*cols), rows, cols}
}

// At returns the summand of one panel.
func (p Partials) At(panel int) Block { return p.all.Row(panel).Reshape(p.rows, p.cols) }

// SumTo sets the contiguous rows × cols block dst to the sum of the summands in
// panel order.
func (p Partials) SumTo(b Backend, dst Block) { b.SumRows(dst.Reshape(1, p.rows*p.cols), p.all) }
