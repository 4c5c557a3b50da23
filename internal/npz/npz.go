// Package npz reads and writes NumPy's .npz files: zip archives of named arrays, each in the .npy format
// (numpy/lib/format.py). It knows float64, int64 and bool; narrower floats and integers are widened on reading.
//
// A file is hostile until checked: every declared size is compared with the bytes present before anything is
// allocated, and a file may unpack to at most 1 MiB + 100 times its own size (which compressed arrays of zeros
// need).
package npz

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrFormat is wrapped by all errors about files that are not well-formed .npz files of supported arrays.
var ErrFormat = errors.New("not a readable npz file")

// An Element is an element type of arrays.
type Element interface{ float64 | int64 | bool }

// An Array is row-major data with its shape. Exactly one of the three slices is used; its length is the
// product of Shape, which is empty for a scalar.
type Array struct {
	Shape  []int
	Floats []float64
	Ints   []int64
	Bools  []bool
}

// Of returns data (not copied) as an array of the given shape. It panics if their sizes differ.
func Of[T Element](data []T, shape ...int) Array {
	n, ok := product(shape)
	if !ok || n != len(data) {
		panic(fmt.Sprintf("npz: %d elements do not fill shape %v", len(data), shape))
	}
	array := Array{Shape: slices.Clone(shape)}
	switch data := any(data).(type) {
	case []float64:
		array.Floats = data
	case []int64:
		array.Ints = data
	case []bool:
		array.Bools = data
	}
	return array
}

// Scalar returns value as an array without dimensions.
func Scalar[T Element](value T) Array { return Of([]T{value}) }

// kind names the element type in error messages.
func (a Array) kind() string {
	switch {
	case a.Ints != nil:
		return "int64"
	case a.Bools != nil:
		return "bool"
	}
	return "float64"
}

// Arrays are the contents of a file by name (without the .npy suffix that names have in the file).
type Arrays map[string]Array

// Names returns the arrays' names, sorted.
func (a Arrays) Names() []string { return slices.Sorted(maps.Keys(a)) }

// Float64s returns the named array's elements, with integers converted. A -1 in shape matches any length.
func (a Arrays) Float64s(name string, shape ...int) ([]float64, error) {
	array, err := a.match(name, shape)
	if err != nil {
		return nil, err
	}
	if array.Bools != nil {
		return nil, fmt.Errorf("array %q holds bool, not numbers", name)
	}
	if array.Ints == nil {
		return array.Floats, nil
	}
	floats := make([]float64, len(array.Ints))
	for i, v := range array.Ints {
		floats[i] = float64(v)
	}
	return floats, nil
}

// Bools returns the named array's elements. A -1 in shape matches any length.
func (a Arrays) Bools(name string, shape ...int) ([]bool, error) {
	array, err := a.match(name, shape)
	if err != nil {
		return nil, err
	}
	if array.Bools == nil && len(array.Floats)+len(array.Ints) > 0 {
		return nil, fmt.Errorf("array %q holds %s, not bool", name, array.kind())
	}
	return array.Bools, nil
}

// Float64 returns the named scalar (or array of one element).
func (a Arrays) Float64(name string) (float64, error) {
	if array := a[name]; len(array.Shape) > 0 && len(array.Floats)+len(array.Ints) == 1 {
		a = Arrays{name: {Floats: array.Floats, Ints: array.Ints}}
	}
	values, err := a.Float64s(name)
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// match finds an array and checks its shape.
func (a Arrays) match(name string, shape []int) (Array, error) {
	array, ok := a[name]
	if !ok {
		return Array{}, fmt.Errorf("array %q is missing", name)
	}
	fits := func(have, want int) bool { return want == -1 || have == want }
	if !slices.EqualFunc(array.Shape, shape, fits) {
		return Array{}, fmt.Errorf("array %q has shape %v, want %v (-1: any)", name, array.Shape, shape)
	}
	return array, nil
}

// product returns the number of elements of a shape; ok is false for a negative length or an overflow.
func product(shape []int) (n int, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > maxElements/d) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// maxElements keeps every product of lengths far from overflow.
const maxElements = 1 << 48
