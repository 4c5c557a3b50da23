package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

const metadataKey = "__metadata__"

// Encode returns the contents of the file, with metadata sorted by key and arrays in the given order. Duplicate names,
// data that do not match their shape, and anything else that Decode would refuse are errors.
func Encode(f *File) ([]byte, error) {
	header, err := encodeHeader(f)
	if err != nil {
		return nil, err
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
	if len(f.Tensors) > MaxTensors || len(f.Metadata) > MaxMetadata {
		return nil, fmt.Errorf("safetensors: %d tensors and %d metadata entries, at most %d and %d fit",
			len(f.Tensors), len(f.Metadata), MaxTensors, MaxMetadata)
	}
	header := []byte{'{'}
	if len(f.Metadata) > 0 {
		for key, value := range f.Metadata {
			if !utf8.ValidString(key) || !utf8.ValidString(value) {
				return nil, fmt.Errorf("safetensors: metadata entry %q is not UTF-8", key)
			}
		}
		header = appendEntry(header, metadataKey, f.Metadata)
	}
	seen, begin := map[string]bool{metadataKey: true}, 0
	for _, t := range f.Tensors {
		if err := t.validate(); err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("safetensors: two tensors are named %q, or one as the metadata are", t.Name)
		}
		seen[t.Name] = true
		end := begin + len(t.Data)
		header = appendEntry(header, t.Name, entry{t.DType, append([]int{}, t.Shape...), [2]int{begin, end}})
		begin = end
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if len(header) > MaxHeader {
		return nil, fmt.Errorf("safetensors: header of %d bytes, at most %d fit", len(header), MaxHeader)
	}
	return header, nil
}

// entry is the description of an array in the header.
type entry struct {
	DType   DType  `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
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

// validate reports data that do not match the shape and names that JSON cannot represent.
func (t *Tensor) validate() error {
	if t.DType.Size() == 0 {
		return fmt.Errorf("safetensors: tensor %.40q: unknown type %.20q", t.Name, t.DType)
	}
	if len(t.Shape) > MaxRank {
		return fmt.Errorf("safetensors: tensor %.40q: %d dimensions, at most %d", t.Name, len(t.Shape), MaxRank)
	}
	if n, ok := product(t.Shape); !ok || n != len(t.Data)/t.DType.Size() || len(t.Data)%t.DType.Size() != 0 {
		return fmt.Errorf("safetensors: tensor %.40q: %d bytes of %s do not fill shape %v", t.Name, len(t.Data), t.DType, t.Shape)
	}
	if !utf8.ValidString(t.Name) {
		return fmt.Errorf("safetensors: tensor %.40q: its name is not UTF-8", t.Name)
	}
	return nil
}
