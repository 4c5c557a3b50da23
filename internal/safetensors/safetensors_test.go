package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func example() *File {
	return &File{
		Metadata: map[string]string{"b": "two\n\"lines\"", "a": "é 😀 <&> \uFFFD"},
		Tensors: []Tensor{
			New("weights", []int{2, 3}, []float64{0, 1, -2, math.Pi, math.Inf(-1), math.SmallestNonzeroFloat64}),
			New("count", nil, []float64{7}),
			New("empty", []int{0, 4}, []float64{}),
			{Name: "sum", Type: "U8", Shape: []int{3}, Data: []byte{1, 2, 255}},
		},
	}
}

func mustEncode(t testing.TB, f *File) []byte {
	t.Helper()
	data, err := Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	want := example()
	data := mustEncode(t, want)
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Metadata, want.Metadata) {
		t.Errorf("metadata %q, want %q", got.Metadata, want.Metadata)
	}
	if len(got.Tensors) != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for i, w := range want.Tensors {
		g := got.Tensors[i]
		if g.Name != w.Name || g.Type != w.Type || len(g.Shape) != len(w.Shape) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("tensor %d is %v, want %v", i, g, w)
		}
	}
	if !bytes.Equal(mustEncode(t, got), data) {
		t.Error("encoding what was decoded gives other bytes")
	}
}

// The bits of a NaN are kept: a resumed run holds what the stopped one held.
func TestValuesKeepBits(t *testing.T) {
	want := []float64{math.Float64frombits(0x7ff8_0000_dead_beef), math.Copysign(0, -1)}
	got, err := New("x", []int{2}, want).Values()
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Errorf("value %d has bits %x, want %x", i, math.Float64bits(got[i]), math.Float64bits(want[i]))
		}
	}
	if _, err := (Tensor{Name: "x", Type: "U8", Data: []byte{1}}).Values(); err == nil ||
		!strings.Contains(err.Error(), "U8, not F64") {
		t.Errorf("reading bytes as numbers: %v", err)
	}
}

func TestEncodeBytes(t *testing.T) {
	data := mustEncode(t, &File{
		Metadata: map[string]string{"k": "v"},
		Tensors:  []Tensor{New("x", []int{1}, []float64{1}), {Name: "y", Type: "U8", Data: []byte{7}}},
	})
	header := `{"__metadata__":{"k":"v"},"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},` +
		`"y":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}`
	header += strings.Repeat(" ", -len(header)&7)
	want := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	want = append(append(want, header...), 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 7)
	if !bytes.Equal(data, want) {
		t.Errorf("encoded\n%q, want\n%q", data, want)
	}
}

// testdata/python.safetensors was written by version 0.8.0 of Python's package.
func TestDecodeReadsPythonsFile(t *testing.T) {
	data, err := os.ReadFile("testdata/python.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Python \"quoted\" \\ \n tab\t é 😀"; f.Metadata["who"] != want {
		t.Errorf("metadata %q, want %q", f.Metadata["who"], want)
	}
	for name, want := range map[string]string{
		"weights": "F64[2 3] 48", "bias": "F32[3] 12", "count": "I64[] 8", "bytes": "U8[3] 3", "empty": "F64[0 4] 0",
	} {
		tensor, _ := f.Tensor(name)
		if got := fmt.Sprint(tensor.Type, tensor.Shape, len(tensor.Data)); got != want {
			t.Errorf("tensor %q is %s, want %s", name, got, want)
		}
	}
	weights, _ := f.Tensor("weights")
	if got, err := weights.Values(); err != nil || !slices.Equal(got, []float64{0, 1. / 3, 2. / 3, 1, 4. / 3, 5. / 3}) {
		t.Errorf("the weights are %v, %v", got, err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	many := make([]Tensor, MaxTensors+1)
	x := New("x", []int{1}, []float64{1})
	for name, f := range map[string]*File{
		"a name twice":        {Tensors: []Tensor{x, x}},
		"the metadata's name": {Tensors: []Tensor{New("__metadata__", nil, []float64{1})}},
		"unknown type":        {Tensors: []Tensor{{Name: "x", Type: "F16", Data: make([]byte, 2)}}},
		"data short of shape": {Tensors: []Tensor{{Name: "x", Type: "F64", Shape: []int{2}, Data: make([]byte, 15)}}},
		"negative shape": {Tensors: []Tensor{
			{Name: "x", Type: "U8", Shape: []int{-1, -1}, Data: make([]byte, 1)}}},
		"overflowing shape":    {Tensors: []Tensor{{Name: "x", Type: "U8", Shape: []int{1 << 32, 1 << 32}}}},
		"many tensors":         {Tensors: many},
		"a name not UTF-8":     {Tensors: []Tensor{New("\xff", nil, []float64{1})}},
		"metadata not UTF-8":   {Metadata: map[string]string{"k": "\xff"}},
		"a header beyond 1 Mi": {Metadata: map[string]string{"k": strings.Repeat("v", MaxHeader)}},
	} {
		if _, err := Encode(f); err == nil {
			t.Errorf("Encode accepts %s", name)
		}
	}
}

func TestNewPanicsOnWrongShape(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New did not panic")
		}
	}()
	New("x", []int{2}, []float64{1})
}

// fileOf returns a file of that header, with its length before it and n bytes of data after it.
func fileOf(header string, n int) []byte {
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(data, header...), make([]byte, n)...)
}

func TestDecodeRefuses(t *testing.T) {
	const x = `"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}`
	for name, data := range map[string][]byte{
		"nothing":                  nil,
		"half a length":            {1, 2, 3},
		"a length beyond the file": append(binary.LittleEndian.AppendUint64(nil, 3), '{', '}'),
		"a length of 2^64-1":       bytes.Repeat([]byte{0xff}, 64),
		"an empty header":          fileOf("", 0),
		"no object":                fileOf(`[]`, 0),
		"text after the header":    fileOf(`{}x`, 0),
		"data of no array":         fileOf(`{}`, 1),
		"data too short":           fileOf("{"+x+"}", 7),
		"data too long":            fileOf("{"+x+"}", 9),
		"overlap":                  fileOf("{"+x+`,"y":{"dtype":"F64","shape":[1],"data_offsets":[4,12]}}`, 12),
		"a gap":                    fileOf("{"+x+`,"y":{"dtype":"F64","shape":[1],"data_offsets":[9,17]}}`, 17),
		"offsets backwards":        fileOf(`{"x":{"dtype":"F64","shape":[1],"data_offsets":[8,0]}}`, 8),
		"a shape that overflows": fileOf(`{"x":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`,
			0),
		"a shape of other size":  fileOf(`{"x":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}}`, 8),
		"an unknown type":        fileOf(`{"x":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}}`, 16),
		"a negative length":      fileOf(`{"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1),
		"a fraction":             fileOf(`{"x":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1),
		"a leading zero":         fileOf(`{"x":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}`, 1),
		"three offsets":          fileOf(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}`, 1),
		"no type":                fileOf(`{"x":{"shape":[1],"data_offsets":[0,1]}}`, 1),
		"no offsets":             fileOf(`{"x":{"dtype":"U8","shape":[1]}}`, 1),
		"an unknown key":         fileOf(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"z":1}}`, 1),
		"a trailing comma":       fileOf("{"+x+",}", 8),
		"a missing brace":        fileOf("{"+x, 8),
		"an open string":         fileOf(`{"x`, 0),
		"a backslash at the end": fileOf(`{"x\`, 0),
		"an unknown escape":      fileOf(`{"__metadata__":{"k":"\x"}}`, 0),
		"a control character":    fileOf("{\"__metadata__\":{\"k\":\"\n\"}}", 0),
		"a number as metadata":   fileOf(`{"__metadata__":{"k":1}}`, 0),
		"a header not UTF-8":     fileOf("{\"__metadata__\":{\"k\":\"\xff\"}}", 0),
	} {
		if f, err := Decode(data); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: Decode gives %v, %v", name, f, err)
		}
	}
}
