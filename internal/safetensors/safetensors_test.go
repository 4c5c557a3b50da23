package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

func example() *File {
	return &File{
		Metadata: map[string]string{"b": "two\n\"lines\"", "a": "é 😀 <&> \uFFFD"},
		Tensors: []Tensor{
			New("weights", []int{2, 3}, []float64{0, 1, -2, math.Pi, math.Inf(-1), math.SmallestNonzeroFloat64}),
			New("single", []int{2}, []float32{1.5, -2}),
			New("count", nil, []int64{math.MinInt64}),
			New("empty", []int{0, 4}, []float64{}),
			New("sum", []int{3}, []uint8{1, 2, 255}),
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
		if g.Name != w.Name || g.DType != w.DType || len(g.Shape) != len(w.Shape) || !bytes.Equal(g.Data, w.Data) {
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
	got, err := Values[float64](New("x", []int{2}, want))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Errorf("value %d has bits %x, want %x", i, math.Float64bits(got[i]), math.Float64bits(want[i]))
		}
	}
	if _, err := Values[float32](New("x", []int{2}, want)); err == nil || !strings.Contains(err.Error(), "F64, not F32") {
		t.Errorf("reading F64 as float32: %v", err)
	}
}

func TestEncodeBytes(t *testing.T) {
	data := mustEncode(t, &File{
		Metadata: map[string]string{"k": "v"},
		Tensors:  []Tensor{New("x", []int{1}, []float32{1}), New("y", nil, []uint8{7})},
	})
	header := `{"__metadata__":{"k":"v"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},` +
		`"y":{"dtype":"U8","shape":[],"data_offsets":[4,5]}}`
	header += strings.Repeat(" ", -len(header)&7)
	want := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	want = append(append(want, header...), 0, 0, 0x80, 0x3f, 7)
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
	expect(t, f, "weights", []int{2, 3}, []float64{0, 1. / 3, 2. / 3, 1, 4. / 3, 5. / 3})
	expect(t, f, "bias", []int{3}, []float32{1.5, -2.25, float32(math.Inf(1))})
	expect(t, f, "count", []int{}, []int64{-7})
	expect(t, f, "bytes", []int{3}, []uint8{0, 127, 255})
	expect(t, f, "empty", []int{0, 4}, []float64{})
}

func expect[T Element](t *testing.T, f *File, name string, shape []int, want []T) {
	t.Helper()
	tensor, ok := f.Tensor(name)
	if !ok {
		t.Errorf("no tensor %q", name)
		return
	}
	got, err := Values[T](tensor)
	if err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(append([]int{}, tensor.Shape...), shape) {
		t.Errorf("tensor %q is %v of shape %v (%v), want %v of shape %v", name, got, tensor.Shape, err, want, shape)
	}
}

func TestEncodeRefuses(t *testing.T) {
	many := make([]Tensor, MaxTensors+1)
	metadata := map[string]string{}
	for i := range MaxMetadata + 1 {
		metadata[strings.Repeat("k", i)] = ""
	}
	x := New("x", []int{1}, []float64{1})
	for name, f := range map[string]*File{
		"a name twice":         {Tensors: []Tensor{x, x}},
		"the metadata's name":  {Tensors: []Tensor{New("__metadata__", nil, []uint8{1})}},
		"unknown type":         {Tensors: []Tensor{{Name: "x", DType: "F16", Data: make([]byte, 2)}}},
		"data short of shape":  {Tensors: []Tensor{{Name: "x", DType: F64, Shape: []int{2}, Data: make([]byte, 15)}}},
		"negative shape":       {Tensors: []Tensor{{Name: "x", DType: U8, Shape: []int{-1, -1}, Data: make([]byte, 1)}}},
		"overflowing shape":    {Tensors: []Tensor{{Name: "x", DType: U8, Shape: []int{1 << 32, 1 << 32}}}},
		"many dimensions":      {Tensors: []Tensor{{Name: "x", DType: U8, Shape: make([]int, MaxRank+1)}}},
		"many tensors":         {Tensors: many},
		"many metadata":        {Metadata: metadata},
		"a name not UTF-8":     {Tensors: []Tensor{New("\xff", nil, []uint8{1})}},
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
		"an array twice":           fileOf("{"+x+","+x+"}", 8),
		"data too short":           fileOf("{"+x+"}", 7),
		"data too long":            fileOf("{"+x+"}", 9),
		"overlap":                  fileOf("{"+x+`,"y":{"dtype":"F64","shape":[1],"data_offsets":[4,12]}}`, 12),
		"a gap":                    fileOf("{"+x+`,"y":{"dtype":"F64","shape":[1],"data_offsets":[9,17]}}`, 17),
		"offsets backwards":        fileOf(`{"x":{"dtype":"F64","shape":[1],"data_offsets":[8,0]}}`, 8),
		"a shape that overflows":   fileOf(`{"x":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0),
		"a shape of other size":    fileOf(`{"x":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}}`, 8),
		"nine dimensions":          fileOf(`{"x":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}`, 1),
		"an unknown type":          fileOf(`{"x":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}}`, 16),
		"a negative length":        fileOf(`{"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1),
		"a fraction":               fileOf(`{"x":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1),
		"a leading zero":           fileOf(`{"x":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}`, 1),
		"three offsets":            fileOf(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}`, 1),
		"no type":                  fileOf(`{"x":{"shape":[1],"data_offsets":[0,1]}}`, 1),
		"no offsets":               fileOf(`{"x":{"dtype":"U8","shape":[1]}}`, 1),
		"an unknown key":           fileOf(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"z":1}}`, 1),
		"two shapes":               fileOf(`{"x":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}}`, 1),
		"a trailing comma":         fileOf("{"+x+",}", 8),
		"a missing brace":          fileOf("{"+x, 8),
		"an open string":           fileOf(`{"x`, 0),
		"a backslash at the end":   fileOf(`{"x\`, 0),
		"an unknown escape":        fileOf(`{"__metadata__":{"k":"\x"}}`, 0),
		"half a surrogate pair":    fileOf(`{"__metadata__":{"k":"\ud83d"}}`, 0),
		"a control character":      fileOf("{\"__metadata__\":{\"k\":\"\n\"}}", 0),
		"metadata twice":           fileOf(`{"__metadata__":{},"__metadata__":{}}`, 0),
		"a metadata key twice":     fileOf(`{"__metadata__":{"k":"","k":""}}`, 0),
		"a number as metadata":     fileOf(`{"__metadata__":{"k":1}}`, 0),
		"a header not UTF-8":       fileOf("{\"__metadata__\":{\"k\":\"\xff\"}}", 0),
	} {
		if f, err := Decode(data); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: Decode gives %v, %v", name, f, err)
		}
	}
}
