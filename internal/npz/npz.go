// Package npz reads and writes NumPy's .npz files: zip archives of named arrays, each in the .npy format
// (numpy/lib/format.py). It writes float64 and bool; in reading, narrower floats and integers become float64.
//
// A file is hostile until checked: every declared size is compared with the bytes present before anything is allocated,
// and a file may unpack to at most 1 MiB + 100 times its own size (which compressed arrays of zeros need).
package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// ErrFormat is wrapped by all errors about files that are not well-formed .npz files of supported arrays.
var ErrFormat = errors.New("not a readable npz file")

// An Array is row-major data with its shape. Exactly one of the slices is used; its length is the product of Shape,
// which is empty for a scalar.
type Array struct {
	Shape  []int
	Floats []float64
	Bools  []bool
}

// Of returns data (not copied) as an array of the given shape. It panics if their sizes differ.
func Of[T float64 | bool](data []T, shape ...int) Array {
	if n, ok := product(shape); !ok || n != len(data) {
		panic(fmt.Sprintf("npz: %d elements do not fill shape %v", len(data), shape))
	}
	array := Array{Shape: slices.Clone(shape)}
	switch data := any(data).(type) {
	case []float64:
		array.Floats = data
	case []bool:
		array.Bools = data
	}
	return array
}

// Scalar returns value as an array without dimensions.
func Scalar[T float64 | bool](value T) Array { return Of([]T{value}) }

// product returns the number of elements of a shape; ok is false for a negative length or an overflow.
func product(shape []int) (n int, ok bool) {
	const maxElements = 1 << 48
	n = 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > maxElements/d) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// Arrays are the contents of a file by name (without the .npy suffix that names have in the file).
type Arrays map[string]Array

// Names returns the arrays' names, sorted.
func (a Arrays) Names() []string { return slices.Sorted(maps.Keys(a)) }

// Float64s returns the named array's elements. A -1 in shape matches any length.
func (a Arrays) Float64s(name string, shape ...int) ([]float64, error) {
	array, err := a.match(name, shape)
	if err == nil && array.Bools != nil {
		err = fmt.Errorf("array %q holds bool, not numbers", name)
	}
	return array.Floats, err
}

// Bools returns the named array's elements. A -1 in shape matches any length.
func (a Arrays) Bools(name string, shape ...int) ([]bool, error) {
	array, err := a.match(name, shape)
	if err == nil && len(array.Floats) > 0 {
		err = fmt.Errorf("array %q holds float64, not bool", name)
	}
	return array.Bools, err
}

// Float64 returns the named scalar, or the element of an array of one.
func (a Arrays) Float64(name string) (float64, error) {
	if array := a[name]; len(array.Floats) == 1 {
		return array.Floats[0], nil
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

// ReadFile reads all arrays of the file at path.
func ReadFile(path string) (Arrays, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	arrays, err := Read(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return arrays, nil
}

// Read reads all arrays of a file of the given size in bytes. An error wraps ErrFormat.
func Read(r io.ReaderAt, size int64) (Arrays, error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	budget := uint64(1<<20) + 100*uint64(size)
	arrays := make(Arrays, len(archive.File))
	for _, entry := range archive.File {
		name := strings.TrimSuffix(entry.Name, ".npy")
		if _, twice := arrays[name]; twice {
			return nil, fmt.Errorf("%w: array %q is there twice", ErrFormat, name)
		}
		if entry.UncompressedSize64 > budget {
			return nil, fmt.Errorf("%w: array %q declares %d bytes, more than a file of %d bytes can hold",
				ErrFormat, name, entry.UncompressedSize64, size)
		}
		budget -= entry.UncompressedSize64
		if arrays[name], err = readEntry(entry); err != nil {
			return nil, fmt.Errorf("%w: array %q: %w", ErrFormat, name, err)
		}
	}
	return arrays, nil
}

func readEntry(entry *zip.File) (Array, error) {
	content, err := entry.Open()
	if err != nil {
		return Array{}, err
	}
	defer content.Close()
	data := make([]byte, entry.UncompressedSize64)
	if _, err := io.ReadFull(content, data); err != nil {
		return Array{}, err
	}
	// Reading to the end makes the archive verify its checksum.
	if n, err := io.Copy(io.Discard, content); err != nil {
		return Array{}, err
	} else if n > 0 {
		return Array{}, fmt.Errorf("%d bytes more than declared", n)
	}
	return decode(data)
}

// header matches the literal that numpy.save writes: its keys in this order, padded with spaces.
var header = regexp.MustCompile(
	`^\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), *\}\s*$`)

// decode reads one array in the .npy format.
func decode(data []byte) (a Array, err error) {
	text, data, err := splitHeader(data)
	if err != nil {
		return a, err
	}
	match := header.FindSubmatch(text)
	if match == nil {
		return a, fmt.Errorf("unsupported npy header %.100q", text)
	}
	for field := range strings.FieldsFuncSeq(string(match[3]), func(r rune) bool { return r == ',' || r == ' ' }) {
		d, err := strconv.Atoi(field)
		if err != nil {
			return a, err
		}
		a.Shape = append(a.Shape, d)
	}
	if string(match[2]) == "True" && len(a.Shape) > 1 {
		return a, errors.New("it is column-major: save numpy.ascontiguousarray of it")
	}
	descr := string(match[1])
	size, ok := map[string]int{"<f8": 8, "<f4": 4, "<i8": 8, "|b1": 1}[descr]
	if !ok {
		return a, fmt.Errorf("unsupported element type %q (supported: <f8 <f4 <i8 |b1)", descr)
	}
	if n, ok := product(a.Shape); !ok || n > len(data)/size || n*size != len(data) {
		return a, fmt.Errorf("shape %v of %q does not match %d bytes of data", a.Shape, descr, len(data))
	}
	switch descr {
	case "<f8":
		a.Floats = elements[float64](data)
	case "<f4":
		a.Floats = widen(elements[float32](data))
	case "<i8":
		a.Floats = widen(elements[int64](data))
	case "|b1":
		a.Bools = elements[bool](data)
	}
	return a, nil
}

// splitHeader checks the magic number and the version and splits the header's text from the data.
func splitHeader(data []byte) (text, rest []byte, err error) {
	if len(data) < 12 || string(data[:6]) != "\x93NUMPY" {
		return nil, nil, errors.New("no npy header")
	}
	start, length := 10, int(binary.LittleEndian.Uint16(data[8:]))
	if major := data[6]; major == 2 || major == 3 {
		start, length = 12, int(binary.LittleEndian.Uint32(data[8:]))
	} else if major != 1 {
		return nil, nil, fmt.Errorf("unknown npy version %d", major)
	}
	if length > len(data)-start {
		return nil, nil, fmt.Errorf("npy header of %d bytes is cut off", length)
	}
	return data[start : start+length], data[start+length:], nil
}

func elements[T float64 | float32 | int64 | bool](data []byte) []T {
	values := make([]T, len(data)/binary.Size(*new(T)))
	_, _ = binary.Decode(data, binary.LittleEndian, values) // of exactly that size
	return values
}

func widen[T float32 | int64](values []T) []float64 {
	wide := make([]float64, len(values))
	for i, v := range values {
		wide[i] = float64(v)
	}
	return wide
}

// WriteFile writes the arrays, compressed, to path, atomically.
func WriteFile(path string, arrays Arrays) error {
	var file bytes.Buffer
	err := Write(&file, arrays)
	if err == nil {
		err = atomicfile.Write(path, file.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Write writes the arrays, compressed, in the order of their names: the same arrays give the same bytes.
func Write(w io.Writer, arrays Arrays) error {
	archive := zip.NewWriter(w)
	for _, name := range arrays.Names() {
		entry, err := archive.Create(name + ".npy")
		if err != nil {
			return err
		}
		if err := encode(entry, arrays[name]); err != nil {
			return fmt.Errorf("array %q: %w", name, err)
		}
	}
	return archive.Close()
}

// encode writes one array in version 1.0 of the .npy format.
func encode(w io.Writer, a Array) error {
	var shape strings.Builder
	for _, d := range a.Shape {
		fmt.Fprintf(&shape, "%d,", d) // the comma after the last one is Python's: a tuple of one is (3,)
	}
	descr, data := "<f8", any(a.Floats)
	if a.Bools != nil {
		descr, data = "|b1", a.Bools
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape.String())
	// The data starts at a multiple of 64 bytes, after a newline.
	const prefix = len("\x93NUMPY\x01\x00") + 2
	padding := 63 - (prefix+len(text))%64
	text += strings.Repeat(" ", padding) + "\n"
	length := binary.LittleEndian.AppendUint16(nil, uint16(len(text)))
	if _, err := fmt.Fprintf(w, "\x93NUMPY\x01\x00%s%s", length, text); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
