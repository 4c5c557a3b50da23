//go:build !cgo || purego

package cpu

// BLAS returns the name of the library for matrix products.
func BLAS() string { return "gonum's BLAS" }
