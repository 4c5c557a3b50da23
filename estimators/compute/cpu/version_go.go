//go:build !cgo || purego

package cpu

// BLAS names the library behind the products.
func BLAS() string { return "gonum's BLAS" }
