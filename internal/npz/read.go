package npz

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
)

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

// header is what numpy.save writes: one literal with its keys in this order, padded with spaces.
var header = regexp.MustCompile(
	`^\{'descr': '([<|][a-z][0-9]+)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), *\}\s*$`)

// decode reads one array in the .npy format.
func decode(data []byte) (Array, error) {
	text, data, err := splitHeader(data)
	if err != nil {
		return Array{}, err
	}
	match := header.FindSubmatch(text)
	if match == nil {
		return Array{}, fmt.Errorf("unsupported npy header %.100q", text)
	}
	array := Array{}
	for field := range strings.SplitSeq(string(match[3]), ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		d, err := strconv.Atoi(field)
		if err != nil {
			return Array{}, err
		}
		array.Shape = append(array.Shape, d)
	}
	n, ok := product(array.Shape)
	if !ok {
		return Array{}, fmt.Errorf("impossible shape %v", array.Shape)
	}
	if err := array.fill(string(match[1]), n, data); err != nil {
		return Array{}, err
	}
	if string(match[2]) == "True" {
		array = array.fromColumnMajor()
	}
	return array, nil
}

// splitHeader checks the magic number and the version and splits the header's text from the data.
func splitHeader(data []byte) (text, rest []byte, err error) {
	const magic = "\x93NUMPY"
	if len(data) < 12 || string(data[:6]) != magic {
		return nil, nil, fmt.Errorf("no npy header")
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

// fill decodes n elements of the described type; data must hold exactly those.
func (a *Array) fill(descr string, n int, data []byte) error {
	size, ok := map[string]int{"<f8": 8, "<f4": 4, "<i8": 8, "<i4": 4, "|b1": 1}[descr]
	if !ok {
		return fmt.Errorf("unsupported element type %q (supported: <f8 <f4 <i8 <i4 |b1)", descr)
	}
	if n > len(data)/size || n*size != len(data) {
		return fmt.Errorf("shape %v of %q does not match %d bytes of data", a.Shape, descr, len(data))
	}
	little := binary.LittleEndian
	switch descr {
	case "<f8":
		a.Floats = decodeAll(n, size, data, func(b []byte) float64 { return math.Float64frombits(little.Uint64(b)) })
	case "<f4":
		a.Floats = decodeAll(n, size, data, func(b []byte) float64 { return float64(math.Float32frombits(little.Uint32(b))) })
	case "<i8":
		a.Ints = decodeAll(n, size, data, func(b []byte) int64 { return int64(little.Uint64(b)) })
	case "<i4":
		a.Ints = decodeAll(n, size, data, func(b []byte) int64 { return int64(int32(little.Uint32(b))) })
	case "|b1":
		a.Bools = decodeAll(n, size, data, func(b []byte) bool { return b[0] != 0 })
	}
	return nil
}

func decodeAll[T Element](n, size int, data []byte, decode func([]byte) T) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = decode(data[i*size:])
	}
	return values
}

// fromColumnMajor converts an array from Fortran's column-major order to row-major order.
func (a Array) fromColumnMajor() Array {
	return Array{Shape: a.Shape, Floats: rowMajor(a.Floats, a.Shape), Ints: rowMajor(a.Ints, a.Shape), Bools: rowMajor(a.Bools, a.Shape)}
}

func rowMajor[T Element](columns []T, shape []int) []T {
	if columns == nil {
		return nil
	}
	rows := make([]T, len(columns))
	index := make([]int, len(shape))
	for _, value := range columns {
		offset := 0
		for d, length := range shape {
			offset = offset*length + index[d]
		}
		rows[offset] = value
		// Count up with the first dimension fastest, as Fortran does.
		for d := range index {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
	return rows
}
