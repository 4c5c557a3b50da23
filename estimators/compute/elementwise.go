package compute

// Fill sets each element of dst to v.
func Fill(b Backend, dst Block, v float64) { b.Affine(dst, 0, dst, 0, v) }

// Copy copies src to dst.
func Copy(b Backend, dst, src Block) { b.Affine(dst, 1, src, 0, 0) }

// Scale multiplies x by alpha.
func Scale(b Backend, alpha float64, x Block) { b.Affine(x, alpha, x, 0, 0) }

// Axpy adds alpha*x to y; x may be a single row.
func Axpy(b Backend, alpha float64, x, y Block) { b.Affine(y, alpha, x, 1, 0) }
