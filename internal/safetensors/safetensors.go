// Package safetensors reads and writes named arrays in the safetensors format, which Python's package of that name and
// most tools of the field read.
//
// A file is
//
//	8 bytes   N, the header's length, little-endian
//	N bytes   the header: JSON, padded with spaces to a multiple of 8
//	the rest  the arrays' elements, little-endian, row-major, one array after the other
//
// and the header is
//
//	{"__metadata__": {"key": "value", ...},
//	 "name": {"dtype": "F64", "shape": [64, 8], "data_offsets": [0, 4096]}, ...}
//
// with offsets counted from the header's end. The arrays fill the rest of the file exactly: no gap, no overlap.
//
// The same [File] always encodes to the same bytes. [Decode] does not trust its input: it accepts a file only if all
// lengths agree with the data, and the arrays take no memory of their own.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
)

// Limits of Decode and Encode, far above the needs of a training run.
const (
	MaxHeader  = 1 << 20 // bytes of JSON
	MaxTensors = 256
)

// ErrMalformed is wrapped by all errors of Decode.
var ErrMalformed = errors.New("not a well-formed safetensors file")

const metadataKey = "__metadata__"

// elementSizes are the sizes in bytes of the elements of each supported type.
var elementSizes = map[string]int{"F64": 8, "F32": 4, "I64": 8, "U8": 1}

// A Tensor is a named array.
type Tensor struct {
	Name  string
	Type  string // of its elements: F64, F32, I64 or U8
	Shape []int  // dimensions; empty for a single number
	Data  []byte // the elements, little-endian, row-major
}

// New returns an array of the given values, which it copies. It panics if their number does not match the shape.
func New(name string, shape []int, values []float64) Tensor {
	data, _ := binary.Append(make([]byte, 0, 8*len(values)), binary.LittleEndian, values)
	t := Tensor{Name: name, Type: "F64", Shape: slices.Clone(shape), Data: data}
	if !t.filled() {
		panic(fmt.Sprintf("safetensors: tensor %q: shape %v does not hold %d values", name, shape, len(values)))
	}
	return t
}

// Values returns a copy of the array's elements, or an error if they are not F64.
func (t Tensor) Values() ([]float64, error) { return t.Append(make([]float64, 0, t.Len())) }

// Append appends the array's elements to values, or returns an error if they are not F64.
func (t Tensor) Append(values []float64) ([]float64, error) {
	if t.Type != "F64" {
		return nil, fmt.Errorf("tensor %q: its elements are %s, not F64", t.Name, t.Type)
	}
	n := len(values)
	values = slices.Grow(values, t.Len())[:n+t.Len()]
	_, err := binary.Decode(t.Data, binary.LittleEndian, values[n:])
	return values, err
}

// Len returns the number of the array's elements.
func (t Tensor) Len() int { return len(t.Data) / elementSizes[t.Type] }

// filled reports whether the data are elements of the array's type, as many as its shape has.
func (t Tensor) filled() bool {
	size := elementSizes[t.Type]
	for _, length := range t.Shape {
		if length < 0 || length > 0 && size > math.MaxInt/length {
			return false
		}
		size *= length
	}
	return elementSizes[t.Type] > 0 && size == len(t.Data)
}

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

// entry describes an array in the header.
type entry struct {
	name    string
	Type    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"`
}

// Encode returns the contents of the file, with metadata sorted by key and arrays in the given order. Anything that
// Decode would refuse is an error.
func Encode(f *File) ([]byte, error) {
	header, err := encodeHeader(f)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	size := 8 + len(header)
	for _, t := range f.Tensors {
		size += len(t.Data)
	}
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, size), uint64(len(header)))
	out = append(out, header...)
	for _, t := range f.Tensors {
		out = append(out, t.Data...)
	}
	return out, nil
}

func encodeHeader(f *File) ([]byte, error) {
	if len(f.Tensors) > MaxTensors {
		return nil, fmt.Errorf("%d tensors, at most %d fit", len(f.Tensors), MaxTensors)
	}
	header := []byte{'{'}
	if len(f.Metadata) > 0 {
		for key, value := range f.Metadata {
			if !utf8.ValidString(key + value) {
				return nil, fmt.Errorf("metadata entry %q is not UTF-8", key)
			}
		}
		header = appendEntry(header, metadataKey, f.Metadata)
	}
	seen, begin := map[string]bool{metadataKey: true}, 0
	for _, t := range f.Tensors {
		if seen[t.Name] || !utf8.ValidString(t.Name) || !t.filled() {
			return nil, fmt.Errorf("tensor %.40q: a second one, a name not in UTF-8, or %d bytes for shape %v of %.20q",
				t.Name, len(t.Data), t.Shape, t.Type)
		}
		seen[t.Name] = true
		end := begin + len(t.Data)
		header = appendEntry(header, t.Name, entry{"", t.Type, append([]int{}, t.Shape...), []int{begin, end}})
		begin = end
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if len(header) > MaxHeader {
		return nil, fmt.Errorf("header of %d bytes, at most %d fit", len(header), MaxHeader)
	}
	return header, nil
}

// appendEntry appends a field of the header's object.
func appendEntry(header []byte, name string, value any) []byte {
	if len(header) > 1 {
		header = append(header, ',')
	}
	quoted, err := json.Marshal(name)
	text, errValue := json.Marshal(value)
	if err = errors.Join(err, errValue); err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return append(append(append(header, quoted...), ':'), text...)
}

// Decode decodes the contents of a file. The arrays share the memory of data; [Tensor.Append] copies it. Any deviation
// from the format, or beyond the limits, is an error that wraps ErrMalformed.
func Decode(data []byte) (*File, error) {
	f, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return f, nil
}

func decode(data []byte) (*File, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("%d bytes, the header's length alone takes 8", len(data))
	}
	length := binary.LittleEndian.Uint64(data)
	if length > MaxHeader || length > uint64(len(data)-8) {
		return nil, fmt.Errorf("a header of %d bytes where %d remain and %d are allowed",
			length, len(data)-8, MaxHeader)
	}
	f := new(File)
	entries, err := f.decodeHeader(data[8 : 8+length])
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	body, at := data[8+length:], 0
	for _, e := range entries {
		if len(e.Offsets) != 2 || e.Offsets[0] != at || e.Offsets[1] < at || e.Offsets[1] > len(body) {
			return nil, fmt.Errorf("tensor %.40q: data_offsets %.5v where %d bytes of %d are taken",
				e.name, e.Offsets, at, len(body))
		}
		t := Tensor{Name: e.name, Type: e.Type, Shape: e.Shape, Data: body[at:e.Offsets[1]:e.Offsets[1]]}
		if !t.filled() {
			return nil, fmt.Errorf("tensor %.40q: %d bytes of %.20q do not fill its shape", e.name, len(t.Data), e.Type)
		}
		at = e.Offsets[1]
		f.Tensors = append(f.Tensors, t)
	}
	if at != len(body) {
		return nil, fmt.Errorf("the arrays take %d bytes of %d", at, len(body))
	}
	return f, nil
}

// decodeHeader sets the metadata and returns the arrays' entries in the order of their data.
func (f *File) decodeHeader(header []byte) ([]entry, error) {
	if !utf8.Valid(header) {
		return nil, errors.New("not UTF-8")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(header, &fields); err != nil {
		return nil, err
	}
	if text, ok := fields[metadataKey]; ok {
		if err := json.Unmarshal(text, &f.Metadata); err != nil {
			return nil, err
		}
		delete(fields, metadataKey)
	}
	if len(fields) > MaxTensors {
		return nil, fmt.Errorf("%d tensors, at most %d are allowed", len(fields), MaxTensors)
	}
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		e := entry{name: name}
		decoder := json.NewDecoder(bytes.NewReader(fields[name]))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&e); err != nil {
			return nil, fmt.Errorf("tensor %.40q: %w", name, err)
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return slices.Compare(a.Offsets, b.Offsets) })
	return entries, nil
}
