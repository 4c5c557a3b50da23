package linop

// The two ways of a Toeplitz matrix, whatever its order.
var (
	NewCirculant     = newCirculant
	NewDenseToeplitz = newDenseToeplitz
)
