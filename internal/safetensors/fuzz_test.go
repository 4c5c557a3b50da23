package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// decodeAll decodes a file and every array in it, as a reader of checkpoints does.
func decodeAll(data []byte) (*File, error) {
	f, err := Decode(data)
	if err != nil {
		return nil, err
	}
	for _, t := range f.Tensors {
		if t.Type == "F64" {
			if _, err := t.Values(); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func checkAllocation(t *testing.T, data []byte) {
	t.Helper()
	limit := 2*uint64(len(data)) + 40*uint64(min(len(data), MaxHeader)) + 64<<10 // maps of the smallest entries
	if bytes := allocated(func() { _, _ = decodeAll(data) }); bytes > limit {
		t.Errorf("decoding %d bytes allocates %d, more than %d", len(data), bytes, limit)
	}
}

// Inputs made to cost memory: many of the smallest entries of each kind.
func TestDecodeAllocatesLittle(t *testing.T) {
	var tensors, metadata, tiny strings.Builder
	for i := 0; tiny.Len() < MaxHeader-20; i++ {
		fmt.Fprintf(&tiny, `,"%x":0`, i)
	}
	for i := range 4 * MaxTensors {
		fmt.Fprintf(&tensors, `,"%d":{"dtype":"U8","shape":[0,0,0,0,0,0,0,0],"data_offsets":[0,0]}`, i)
		fmt.Fprintf(&metadata, `,"%d":"\n"`, i)
	}
	for name, data := range map[string][]byte{
		"tiny":     fileOf("{"+tiny.String()[1:]+"}", 0),
		"tensors":  fileOf("{"+tensors.String()[1:]+"}", 0),
		"metadata": fileOf(`{"__metadata__":{`+metadata.String()[1:]+"}}", 0),
		"both":     fileOf(`{"__metadata__":{`+metadata.String()[1:]+"}"+tensors.String()+"}", 0),
		"shapes":   fileOf("{"+strings.Repeat(`"shape"`, 100_000)+"}", 0),
		"escapes":  fileOf(`{"__metadata__":{"k":"`+strings.Repeat(`\n`, 400_000)+`"}}`, 0),
		"brackets": fileOf(`{"x":{"shape":`+strings.Repeat("[", MaxHeader-20), 0),
		"a name": fileOf(`{"`+strings.Repeat(`\u0001`, 150_000)+`":{"dtype":"U8","shape":[1],"data_offsets":[0,0]}}`,
			0),
		"a claim":   binary.LittleEndian.AppendUint64(nil, 1<<40),
		"real data": mustEncode(t, &File{Tensors: []Tensor{New("x", []int{1 << 17}, make([]float64, 1<<17))}}),
	} {
		t.Run(name, func(t *testing.T) { checkAllocation(t, data) })
	}
	// As many entries as are let through.
	full := &File{Metadata: map[string]string{}}
	for i := range MaxTensors {
		full.Tensors = append(full.Tensors, New(fmt.Sprint(i), make([]int, 8), nil))
	}
	for i := range MaxTensors {
		full.Metadata[fmt.Sprint(i)] = "\n"
	}
	checkAllocation(t, mustEncode(t, full))
}

func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, example()))
	f.Add(fileOf(`{"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}`, 8))
	f.Add(fileOf(`{"__metadata__":{"k":"\ud83d\ude00\/"}} `, 0))
	if data, err := os.ReadFile("testdata/python.safetensors"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkAllocation(t, data)
		file, err := decodeAll(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		again, err := Encode(file)
		if err != nil {
			t.Fatalf("cannot encode what was decoded: %v", err)
		}
		twice, err := Decode(again)
		if err != nil {
			t.Fatalf("cannot decode what was encoded: %v", err)
		}
		if third := mustEncode(t, twice); !bytes.Equal(third, again) {
			t.Error("encoding is not stable")
		}
	})
}
