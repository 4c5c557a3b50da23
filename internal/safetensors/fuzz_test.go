package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
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
		if t.DType == F64 {
			if _, err := Values[float64](t); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func checkAllocation(t *testing.T, data []byte) {
	t.Helper()
	limit := 2*uint64(len(data)) + 64<<10
	if bytes := allocated(func() { _, _ = decodeAll(data) }); bytes > limit {
		t.Errorf("decoding %d bytes allocates %d, more than %d", len(data), bytes, limit)
	}
}

// Inputs made to cost memory: many of the smallest entries of each kind.
func TestDecodeAllocatesLittle(t *testing.T) {
	var tensors, metadata strings.Builder
	for i := range 4 * MaxTensors {
		fmt.Fprintf(&tensors, `,"%d":{"dtype":"U8","shape":[0,0,0,0,0,0,0,0],"data_offsets":[0,0]}`, i)
		fmt.Fprintf(&metadata, `,"%d":"\n"`, i)
	}
	for name, data := range map[string][]byte{
		"tensors":   fileOf("{"+tensors.String()[1:]+"}", 0),
		"metadata":  fileOf(`{"__metadata__":{`+metadata.String()[1:]+"}}", 0),
		"both":      fileOf(`{"__metadata__":{`+metadata.String()[1:]+"}"+tensors.String()+"}", 0),
		"shapes":    fileOf("{"+strings.Repeat(`"shape"`, 100_000)+"}", 0),
		"escapes":   fileOf(`{"__metadata__":{"k":"`+strings.Repeat(`\n`, 400_000)+`"}}`, 0),
		"brackets":  fileOf(`{"x":{"shape":`+strings.Repeat("[", MaxHeader-20), 0),
		"a name":    fileOf(`{"`+strings.Repeat(`\u0001`, 150_000)+`":{"dtype":"U8","shape":[1],"data_offsets":[0,0]}}`, 0),
		"a claim":   binary.LittleEndian.AppendUint64(nil, 1<<40),
		"real data": mustEncode(t, &File{Tensors: []Tensor{New("x", []int{1 << 17}, make([]float64, 1<<17))}}),
	} {
		t.Run(name, func(t *testing.T) { checkAllocation(t, data) })
	}
	// As many entries as are let through.
	full := &File{Metadata: map[string]string{}}
	for i := range MaxTensors {
		full.Tensors = append(full.Tensors, New(fmt.Sprint(i), make([]int, MaxRank), []uint8{}))
	}
	for i := range MaxMetadata {
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
		checkAgainstJSON(t, data, file)
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

// checkAgainstJSON reads an accepted header with the standard library, which must agree.
func checkAgainstJSON(t *testing.T, data []byte, file *File) {
	t.Helper()
	header := map[string]json.RawMessage{}
	if err := json.Unmarshal(data[8:8+binary.LittleEndian.Uint64(data)], &header); err != nil {
		t.Fatalf("an accepted header is not JSON: %v", err)
	}
	metadata := map[string]string{}
	if raw, ok := header[metadataKey]; ok {
		if err := json.Unmarshal(raw, &metadata); err != nil {
			t.Fatalf("accepted metadata are no texts: %v", err)
		}
		delete(header, metadataKey)
	}
	if len(header) != len(file.Tensors) || len(metadata) != len(file.Metadata) {
		t.Fatalf("%d tensors and %d metadata entries, want %d and %d", len(file.Tensors), len(file.Metadata), len(header), len(metadata))
	}
	for key, value := range metadata {
		if file.Metadata[key] != value {
			t.Errorf("metadata %q is %q, want %q", key, file.Metadata[key], value)
		}
	}
	for _, tensor := range file.Tensors {
		var entry struct {
			DType   DType `json:"dtype"`
			Shape   []int `json:"shape"`
			Offsets []int `json:"data_offsets"`
		}
		if err := json.Unmarshal(header[tensor.Name], &entry); err != nil {
			t.Fatalf("entry %q: %v", tensor.Name, err)
		}
		if entry.DType != tensor.DType || len(entry.Shape) != len(tensor.Shape) || entry.Offsets[1]-entry.Offsets[0] != len(tensor.Data) {
			t.Errorf("tensor %q is %v, the header says %v", tensor.Name, tensor, entry)
		}
	}
}
