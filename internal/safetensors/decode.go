package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// ErrMalformed is wrapped by all errors of Decode.
var ErrMalformed = errors.New("not a well-formed safetensors file")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Decode decodes the contents of a file. The arrays share the memory of data; [Values] copies it. Any deviation from
// the format, or beyond the limits, is an error that wraps ErrMalformed.
func Decode(data []byte) (*File, error) {
	if len(data) < 8 {
		return nil, malformed("%d bytes, the header's length alone takes 8", len(data))
	}
	length := binary.LittleEndian.Uint64(data)
	if length > MaxHeader || length > uint64(len(data)-8) {
		return nil, malformed("a header of %d bytes where %d remain and %d are allowed", length, len(data)-8, MaxHeader)
	}
	header, body := data[8:8+length], data[8+length:]
	if !utf8.Valid(header) {
		return nil, malformed("the header is not UTF-8")
	}
	r := headerReader{scanner: scanner{text: header}, body: body}
	if err := r.read(); err != nil {
		return nil, err
	}
	return &r.file, nil
}

// headerReader turns the header into arrays over the body.
type headerReader struct {
	scanner
	body   []byte
	offset int // of the next array in the body
	file   File
}

func (r *headerReader) read() error {
	// Count first and allocate once: growing would take several times the length of the header.
	r.file.Tensors = make([]Tensor, 0, min(bytes.Count(r.text, []byte(`"shape"`)), MaxTensors))
	err := r.object(func(key string) error {
		if key == metadataKey {
			return r.readMetadata()
		}
		return r.readTensor(key)
	})
	if err != nil {
		return err
	}
	if rest := bytes.TrimRight(r.text[r.at:], " "); len(rest) > 0 {
		return malformed("%.20q follows the header's object", rest)
	}
	if r.offset != len(r.body) {
		return malformed("the arrays take %d bytes of %d", r.offset, len(r.body))
	}
	return nil
}

func (r *headerReader) readMetadata() error {
	if r.file.Metadata != nil {
		return malformed("%s is there twice", metadataKey)
	}
	r.file.Metadata = map[string]string{}
	return r.object(func(key string) error {
		if _, twice := r.file.Metadata[key]; twice || len(r.file.Metadata) == MaxMetadata {
			return malformed("metadata %.40q are there twice, or there are more than %d", key, MaxMetadata)
		}
		value, err := r.str()
		r.file.Metadata[key] = value
		return err
	})
}

// readTensor reads the entry of one array and checks it against the body and the arrays before it.
func (r *headerReader) readTensor(name string) error {
	if _, twice := r.file.Tensor(name); twice || len(r.file.Tensors) == cap(r.file.Tensors) {
		return malformed("tensor %.40q is there twice or lacks a shape, or there are more than %d", name, MaxTensors)
	}
	t := Tensor{Name: name}
	var shape [MaxRank]int
	var offsets [2]int
	rank, ends := -1, 0 // -1: no shape read yet
	err := r.object(func(key string) (err error) {
		switch {
		case key == "dtype" && t.DType == "":
			var text string
			text, err = r.str()
			t.DType = DType(text)
		case key == "shape" && rank < 0:
			rank, err = r.numbers(shape[:])
		case key == "data_offsets" && ends == 0:
			ends, err = r.numbers(offsets[:])
		default:
			err = malformed("tensor %.40q: key %.40q is unknown or there twice", name, key)
		}
		return err
	})
	if err != nil {
		return err
	}
	if rank < 0 || ends != 2 {
		return malformed("tensor %.40q: no shape, or not two data_offsets", name)
	}
	if offsets[0] != r.offset || offsets[1] < offsets[0] || offsets[1] > len(r.body) {
		return malformed("tensor %.40q: data_offsets %v where %d bytes of %d are taken", name, offsets, r.offset, len(r.body))
	}
	r.offset = offsets[1]
	t.Shape = slices.Clone(shape[:rank])
	t.Data = r.body[offsets[0]:offsets[1]:offsets[1]]
	if err := t.validate(); err != nil {
		return malformed("%v", err)
	}
	r.file.Tensors = append(r.file.Tensors, t)
	return nil
}
