package proto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// A Message can be sent.
type Message interface {
	// kind names the message on the wire.
	kind() string
	// limit is the largest encoding accepted, in bytes.
	limit() int
	// check validates sizes and the consistency of values.
	check() error
}

// output is the byte slice that an encoder appends to.
type output []byte

func (o *output) Write(p []byte) (int, error) { *o = append(*o, p...); return len(p), nil }
func (o *output) WriteByte(c byte) error      { *o = append(*o, c); return nil }

// Marshal appends m's encoding to dst and returns the result. If Unmarshal would refuse
// the message, Marshal returns an error and dst unchanged.
func Marshal(dst []byte, m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return dst, fmt.Errorf("%s: %w", m.kind(), err)
	}
	encoded := output(dst)
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&encoded)
	e.UseArrayEncodedStructs(true)
	e.UseCompactInts(true)
	err := errors.Join(e.EncodeArrayLen(3), e.EncodeUint(Version), e.EncodeString(m.kind()), e.Encode(m))
	if err != nil {
		return dst, fmt.Errorf("%s: %w", m.kind(), err)
	}
	if size := len(encoded) - len(dst); size > m.limit() {
		return dst, fmt.Errorf("%s: %w: %d bytes, at most %d are allowed", m.kind(), ErrTooLarge, size, m.limit())
	}
	return encoded, nil
}

// input is the message that a decoder reads.
type input struct {
	bytes.Reader
	data []byte
}

var inputs = sync.Pool{New: func() any { return new(input) }}

// take returns the next n bytes, which remain part of the message.
func (in *input) take(n int) []byte {
	at := len(in.data) - in.Len()
	_, _ = in.Seek(int64(n), io.SeekCurrent) // cannot fail
	return in.data[at : at+n : at+n]
}

// Unmarshal decodes data into m, which it overwrites. After an error m's contents are
// unspecified. A [Chunk]'s Data shares memory with data; nothing else does.
func Unmarshal(data []byte, m Message) error {
	var err error
	if len(data) > m.limit() {
		err = fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(data), m.limit())
	} else if err = decode(data, m); err == nil {
		err = m.check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.kind(), err)
	}
	return nil
}

func decode(data []byte, m Message) error {
	in := inputs.Get().(*input)
	defer inputs.Put(in)
	in.Reset(data)
	in.data = data
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(in)
	parts, lengthErr := d.DecodeArrayLen()
	version, err := d.DecodeUint64()
	switch {
	case lengthErr != nil || err != nil || parts != 3:
		return fmt.Errorf("%w: not a message", ErrMalformed)
	case version != Version:
		other := ErrVersion
		if version < Version {
			other = ErrOlder
		}
		return fmt.Errorf("%w: %d, this program has %d: run the same release on both sides", other, version, Version)
	}
	if err := checkLengths(data); err != nil {
		return err
	}
	if n, err := d.DecodeBytesLen(); err != nil || n < 0 || string(in.take(n)) != m.kind() {
		return fmt.Errorf("%w: the message is of another kind", ErrMalformed)
	}
	reflect.ValueOf(m).Elem().SetZero()
	if err := d.Decode(m); err != nil && !errors.Is(err, ErrChecksum) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	} else if err != nil {
		return err
	}
	return nil
}

// checkLengths returns an error unless data is one value, of the types that messages consist of, and as long as it
// declares: the library's decoder allocates the declared length before reading. A list has at most 15 elements.
func checkLengths(data []byte) error {
	for values := 1; values > 0; values-- {
		if len(data) == 0 {
			return fmt.Errorf("%w: it is cut short", ErrMalformed)
		}
		c, length, size := data[0], 0, 0 // bytes of the length, and of the rest
		data = data[1:]
		switch {
		case c <= msgpcode.PosFixedNumHigh, c == msgpcode.Nil, c == msgpcode.False, c == msgpcode.True:
		case msgpcode.IsFixedArray(c):
			values += int(c & msgpcode.FixedArrayMask)
		case msgpcode.IsFixedString(c):
			size = int(c & msgpcode.FixedStrMask)
		case c >= msgpcode.Uint8 && c <= msgpcode.Uint64:
			size = 1 << (c - msgpcode.Uint8)
		case c == msgpcode.Double:
			size = 8
		case c >= msgpcode.Str8 && c <= msgpcode.Str32:
			length = 1 << (c - msgpcode.Str8)
		case c >= msgpcode.Bin8 && c <= msgpcode.Bin32:
			length = 1 << (c - msgpcode.Bin8)
		default:
			return fmt.Errorf("%w: code %#02x", ErrMalformed, c)
		}
		for i := 0; i < length && i < len(data); i++ {
			size = size<<8 | int(data[i])
		}
		if size += length; size > len(data) {
			return fmt.Errorf("%w: %d bytes declared, %d remain", ErrMalformed, size, len(data))
		}
		data = data[size:]
	}
	if len(data) > 0 {
		return fmt.Errorf("%w: %d surplus bytes", ErrMalformed, len(data))
	}
	return nil
}
