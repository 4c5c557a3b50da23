package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

const metadataKey = "__metadata__"

// Encode returns the file's bytes: metadata sorted by key, arrays in the order given. Names that occur twice, data
// that do not fill their shape and whatever else Decode would refuse are errors.
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
		header = append(quote(header, metadataKey), ':', '{')
		for i, key := range slices.Sorted(maps.Keys(f.Metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(f.Metadata[key]) {
				return nil, fmt.Errorf("safetensors: metadata entry %q is not UTF-8", key)
			}
			header = quote(comma(header, i), key)
			header = quote(append(header, ':'), f.Metadata[key])
		}
		header = append(header, '}')
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
		header = t.appendEntry(comma(header, len(header)-1), begin)
		begin += len(t.Data)
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

// appendEntry writes the header's entry of an array whose data begin at that offset.
func (t *Tensor) appendEntry(header []byte, begin int) []byte {
	header = quote(header, t.Name)
	header = fmt.Appendf(header, `:{"dtype":"%s","shape":[`, t.DType)
	for i, length := range t.Shape {
		header = fmt.Append(comma(header, i), length)
	}
	return fmt.Appendf(header, `],"data_offsets":[%d,%d]}`, begin, begin+len(t.Data))
}

// validate reports data that do not fill the shape and names that JSON cannot carry.
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

// comma appends one before every entry but the first, which is number 0.
func comma(header []byte, entry int) []byte {
	if entry == 0 {
		return header
	}
	return append(header, ',')
}

func quote(header []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has an encoding
	}
	return append(header, quoted...)
}
