package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Limits of Decode and Encode, far above the needs of a training run.
const (
	MaxHeader   = 1 << 20 // bytes of JSON
	MaxTensors  = 256
	MaxMetadata = 128 // entries
	MaxRank     = 8   // dimensions of an array
)

// A DType is the type of an array's elements, as named in the format.
type DType string

// The element types that this package supports.
const (
	F64 DType = "F64"
	F32 DType = "F32"
	I64 DType = "I64"
	U8  DType = "U8"
)

// Size returns the size of an element in bytes, 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case F64, I64:
		return 8
	case F32:
		return 4
	case U8:
		return 1
	}
	return 0
}

// An Element is a Go type for the elements of arrays.
type Element interface {
	float64 | float32 | int64 | uint8
}

func dtypeOf[T Element]() DType {
	switch any(*new(T)).(type) {
	case float64:
		return F64
	case float32:
		return F32
	case int64:
		return I64
	}
	return U8
}

// A Tensor is a named array.
type Tensor struct {
	Name  string
	DType DType
	Shape []int  // dimensions; empty for a single number
	Data  []byte // the elements, little-endian, row-major
}

// New returns an array of the given values, which it copies. It panics if their number does not match the shape.
func New[T Element](name string, shape []int, values []T) Tensor {
	if n, ok := product(shape); !ok || n != len(values) {
		panic(fmt.Sprintf("safetensors: tensor %q: shape %v does not hold %d values", name, shape, len(values)))
	}
	data, err := binary.Append(make([]byte, 0, binary.Size(values)), binary.LittleEndian, values)
	if err != nil {
		panic(err) // only for types that are not numbers
	}
	return Tensor{Name: name, DType: dtypeOf[T](), Shape: slices.Clone(shape), Data: data}
}

// Values returns a copy of the array's elements, or an error if they have another type.
func Values[T Element](t Tensor) ([]T, error) { return Append(make([]T, 0, t.Len()), t) }

// Append appends the array's elements, or returns an error if they have another type.
func Append[T Element](values []T, t Tensor) ([]T, error) {
	if want := dtypeOf[T](); t.DType != want {
		return nil, fmt.Errorf("tensor %q: its elements are %s, not %s", t.Name, t.DType, want)
	}
	n := len(values)
	values = slices.Grow(values, t.Len())[:n+t.Len()]
	if _, err := binary.Decode(t.Data, binary.LittleEndian, values[n:]); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return values, nil
}

// Len returns the number of the array's elements, 0 for an unknown type.
func (t Tensor) Len() int { return len(t.Data) / max(1, t.DType.Size()) }

// A File is the contents of a file: arrays, in the order of their data, and metadata.
type File struct {
	Metadata map[string]string
	Tensors  []Tensor
}

// Tensor returns the array of that name, and whether there is one.
func (f *File) Tensor(name string) (Tensor, bool) {
	i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// product returns the number of elements of an array, and false if a dimension is negative or the product overflows.
func product(shape []int) (int, bool) {
	n := 1
	for _, length := range shape {
		if length < 0 || length > 0 && n > math.MaxInt/length {
			return 0, false
		}
		n *= length
	}
	return n, true
}
