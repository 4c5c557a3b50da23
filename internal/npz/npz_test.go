package npz

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	oracle "github.com/sbinet/npyio/npz"
	"gonum.org/v1/gonum/mat"
)

func sample() Arrays {
	return Arrays{
		"matrix": Of([]float64{1, 2, 3, math.Inf(1), -0.5, math.MaxFloat64}, 2, 3),
		"flags":  Of([]bool{true, false, true}, 3),
		"scalar": Scalar(3.5),
		"empty":  Of([]float64{}, 0, 4),
		"none":   Of([]bool{}, 0),
	}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := WriteFile(path, sample()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range sample() {
		have := got[name]
		if len(have.Shape)+len(want.Shape) > 0 && !reflect.DeepEqual(have.Shape, want.Shape) {
			t.Errorf("%s: shape %v, want %v", name, have.Shape, want.Shape)
		}
		have.Shape, want.Shape = nil, nil
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %v, want %v", name, have, want)
		}
	}
	if len(got) != len(sample()) {
		t.Errorf("arrays %v, want %v", got.Names(), sample().Names())
	}
}

// An independent reader understands what Write writes.
func TestOtherReader(t *testing.T) {
	var file bytes.Buffer
	if err := Write(&file, sample()); err != nil {
		t.Fatal(err)
	}
	reader, err := oracle.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var matrix mat.Dense
	if err := reader.Read("matrix.npy", &matrix); err != nil {
		t.Fatal(err)
	}
	if r, c := matrix.Dims(); r != 2 || c != 3 || matrix.At(1, 1) != -0.5 {
		t.Errorf("matrix is %v", mat.Formatted(&matrix))
	}
	var flags []bool
	if err := reader.Read("flags.npy", &flags); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(flags, []bool{true, false, true}) {
		t.Errorf("flags are %v", flags)
	}
}

// testdata/numpy.npz was written by NumPy 2.4 itself:
//
//	np.savez("numpy.npz", c=np.arange(6.).reshape(2, 3), f4=np.float32([0.5]), b=np.array(True), e=np.zeros((0, 2)))
func TestNumPyFile(t *testing.T) {
	got, err := ReadFile("testdata/numpy.npz")
	if err != nil {
		t.Fatal(err)
	}
	want := Arrays{
		"c":  Of([]float64{0, 1, 2, 3, 4, 5}, 2, 3),
		"f4": Of([]float64{0.5}, 1),
		"b":  {Bools: []bool{true}},
		"e":  Of([]float64{}, 0, 2),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLookups(t *testing.T) {
	a := sample()
	if v, err := a.Float64s("matrix", -1, 3); err != nil || len(v) != 6 {
		t.Errorf("matrix: %v, %v", v, err)
	}
	if v, err := a.Float64("scalar"); err != nil || v != 3.5 {
		t.Errorf("scalar: %v, %v", v, err)
	}
	if v, err := (Arrays{"x": Of([]float64{2}, 1)}).Float64("x"); err != nil || v != 2 {
		t.Errorf("array of one: %v, %v", v, err)
	}
	_, missing := a.Float64s("absent", 2)
	_, shape := a.Float64s("matrix", 3, 2)
	_, kind := a.Float64s("flags", 3)
	_, flags := a.Bools("matrix", 2, 3)
	_, scalar := a.Float64("matrix")
	for err, part := range map[error]string{
		missing: `"absent" is missing`, shape: `"matrix" has shape [2 3], want [3 2]`,
		kind: "bool, not numbers", flags: "float64, not bool", scalar: "want []",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
}

func TestOfPanicsOnWrongShape(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Of([]float64{1, 2, 3}, 2, 2)
}

func TestMalformedHeaders(t *testing.T) {
	npy := func(text, data string) []byte {
		return []byte("\x93NUMPY\x01\x00" + string([]byte{byte(len(text)), 0}) + text + data)
	}
	for name, data := range map[string][]byte{
		"empty":        {},
		"magic":        []byte("0123456789abcdef"),
		"version":      []byte("\x93NUMPY\x09\x00\x00\x00\x00\x00"),
		"cut header":   []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"),
		"object":       npy("{'descr': '|O8', 'fortran_order': False, 'shape': (1,), }", "01234567"),
		"big endian":   npy("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", "01234567"),
		"column-major": npy("{'descr': '|b1', 'fortran_order': True, 'shape': (2, 4), }", "01234567"),
		"short":        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", "01234567"),
		"long":         npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "0123456789abcdef"),
		"huge": npy("{'descr': '<f8', 'fortran_order': False, 'shape': "+
			"(1000000000000000000, 1000000000000000000), }", ""),
		"huge empty":   npy("{'descr': '<f8', 'fortran_order': True, 'shape': (4000000000, 4000000000, 0), }", ""),
		"out of range": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }", ""),
	} {
		if _, err := decode(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBadFiles(t *testing.T) {
	var file bytes.Buffer
	if err := Write(&file, sample()); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty":     {},
		"text":      []byte("hello"),
		"truncated": file.Bytes()[:file.Len()/2],
		"corrupt":   flip(file.Bytes(), 45),
	} {
		if _, err := Read(bytes.NewReader(data), int64(len(data))); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none.npz")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: error %v", err)
	}
	if err := WriteFile(filepath.Join(t.TempDir(), "no", "such", "folder.npz"), sample()); err == nil {
		t.Error("write into a missing folder: no error")
	}
}

func flip(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 0x55
	return data
}

// FuzzRead: no input panics; none makes Read allocate more than four times the bound on what a file unpacks to
// (widening doubles float32) and 1 MiB for the zip reader; and what can be
// read can be written and read again.
func FuzzRead(f *testing.F) {
	var file bytes.Buffer
	if err := Write(&file, sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	numpy, err := os.ReadFile("testdata/numpy.npz")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(numpy)
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		arrays, err := Read(bytes.NewReader(data), int64(len(data)))
		runtime.ReadMemStats(&after)
		bound := 4*uint64(1<<20+100*len(data)) + 1<<20
		if used := after.TotalAlloc - before.TotalAlloc; used > bound {
			t.Errorf("%d bytes of input made Read allocate %d", len(data), used)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, arrays); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bytes.NewReader(again.Bytes()), int64(again.Len())); err != nil {
			t.Fatalf("what was read does not read again: %v", err)
		}
	})
}
