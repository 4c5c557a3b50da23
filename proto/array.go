package proto

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
)

// castagnoli is the polynomial of CRC32C, which CPUs compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An Array travels as the bytes of its elements, little-endian, and their CRC32C.
type Array[T byte | float32 | float64] []T

// EncodeMsgpack implements [msgpack.CustomEncoder].
func (a *Array[T]) EncodeMsgpack(e *msgpack.Encoder) error { return encodeChecked(e, memory(*a)) }

// DecodeMsgpack implements [msgpack.CustomDecoder].
func (a *Array[T]) DecodeMsgpack(d *msgpack.Decoder) error {
	data, err := decodeChecked(d)
	if err != nil {
		return err
	}
	var element T
	size := int(unsafe.Sizeof(element))
	if len(data)%size != 0 {
		return fmt.Errorf("%d bytes for elements of %d", len(data), size)
	}
	if *a = nil; len(data) > 0 {
		*a = make(Array[T], len(data)/size)
		copy(memory(*a), data)
	}
	return nil
}

// memory returns the bytes of v as they are in memory, which is little-endian on every platform that this program
// supports (amd64 and arm64).
func memory[T any](v []T) []byte {
	var element T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(element)))
}

// Bytes is an Array of bytes that shares memory with the message after decoding.
type Bytes []byte

// EncodeMsgpack implements [msgpack.CustomEncoder].
func (b *Bytes) EncodeMsgpack(e *msgpack.Encoder) error { return encodeChecked(e, *b) }

// DecodeMsgpack implements [msgpack.CustomDecoder].
func (b *Bytes) DecodeMsgpack(d *msgpack.Decoder) (err error) {
	*b, err = decodeChecked(d)
	return err
}

func encodeChecked(e *msgpack.Encoder, data []byte) error {
	if err := e.EncodeBytesLen(len(data) + crc32.Size); err != nil {
		return err
	}
	out := e.Writer().(*output)
	*out = append(*out, data...)
	*out = binary.BigEndian.AppendUint32(*out, crc32.Checksum(data, castagnoli))
	return nil
}

func decodeChecked(d *msgpack.Decoder) ([]byte, error) {
	n, err := d.DecodeBytesLen()
	if err != nil || n < crc32.Size {
		return nil, fmt.Errorf("%d bytes where an array belongs: %w", n, err)
	}
	data := d.Buffered().(*input).take(n)
	data, declared := data[:n-crc32.Size], binary.BigEndian.Uint32(data[n-crc32.Size:])
	if sum := crc32.Checksum(data, castagnoli); sum != declared {
		return nil, fmt.Errorf("%w: CRC32C is %08x, %08x was declared", ErrChecksum, sum, declared)
	}
	return data, nil
}
