package proto

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// reader is the codec that fills in fields from an encoding. It is written by hand
// because the library's decoder allocates whatever length is declared before it has seen
// that many bytes; here every byte passes through take, which checks first.
//
// After the first error the reader does nothing more, so callers need to check only once.
type reader struct {
	rest  []byte
	field string // the field being read, for the error
	count int    // fields of the group read so far
	err   error
}

func (r *reader) fail(kind error, format string, args ...any) {
	if r.err != nil {
		return
	}
	at := ""
	if r.field != "" {
		at = r.field + ": "
	}
	r.err = fmt.Errorf("%s%w: %s", at, kind, fmt.Sprintf(format, args...))
}

// take removes and returns the next n bytes. It returns nil after an error.
func (r *reader) take(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.rest)) {
		r.fail(ErrMalformed, "%d bytes declared, %d remain", n, len(r.rest))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// code removes and returns the byte that determines what follows.
func (r *reader) code() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// bigEndian reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *reader) bigEndian(size uint64) uint64 {
	var n uint64
	for _, b := range r.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// unsigned reads a number, which must not be negative.
func (r *reader) unsigned() uint64 {
	c := r.code()
	switch {
	case c <= msgpcode.PosFixedNumHigh:
		return uint64(c)
	case c >= msgpcode.Uint8 && c <= msgpcode.Uint64:
		return r.bigEndian(1 << (c - msgpcode.Uint8))
	}
	r.fail(ErrMalformed, "code %#02x where a number belongs", c)
	return 0
}

// str reads a string's bytes.
func (r *reader) str() []byte {
	c := r.code()
	switch {
	case msgpcode.IsFixedString(c):
		return r.take(uint64(c & msgpcode.FixedStrMask))
	case c >= msgpcode.Str8 && c <= msgpcode.Str32:
		return r.take(r.bigEndian(1 << (c - msgpcode.Str8)))
	}
	r.fail(ErrMalformed, "code %#02x where a string belongs", c)
	return nil
}

// bin reads a byte string.
func (r *reader) bin() []byte {
	c := r.code()
	if c >= msgpcode.Bin8 && c <= msgpcode.Bin32 {
		return r.take(r.bigEndian(1 << (c - msgpcode.Bin8)))
	}
	r.fail(ErrMalformed, "code %#02x where bytes belong", c)
	return nil
}

// list reads the header of a list of at most limit elements, and at most 15.
func (r *reader) list(limit int) int {
	c := r.code()
	if !msgpcode.IsFixedArray(c) || int(c&msgpcode.FixedArrayMask) > limit {
		r.fail(ErrMalformed, "code %#02x where a list of at most %d elements belongs", c, limit)
		return 0
	}
	return int(c & msgpcode.FixedArrayMask)
}

// group reads a map, which must contain exactly the visited fields.
func (r *reader) group(visit func()) {
	outer, name := r.count, r.field
	c := r.code()
	if !msgpcode.IsFixedMap(c) {
		r.fail(ErrMalformed, "code %#02x where a map belongs", c)
		return
	}
	r.count = 0
	visit()
	r.field = name
	if fields := int(c & msgpcode.FixedMapMask); fields != r.count {
		r.fail(ErrMalformed, "%d fields, expected %d", fields, r.count)
	}
	r.count = outer
}

// key reads a field's name.
func (r *reader) key(name string) {
	if r.err != nil {
		return
	}
	r.field = name
	r.count++
	if got := r.str(); r.err == nil && string(got) != name {
		r.fail(ErrMalformed, "found field %.20q instead", got)
	}
}

func (r *reader) number(name string, v *uint64) {
	r.key(name)
	*v = r.unsigned()
}

func (r *reader) flag(name string, v *bool) {
	r.key(name)
	c := r.code()
	if c != msgpcode.False && c != msgpcode.True {
		r.fail(ErrMalformed, "code %#02x where a boolean belongs", c)
	}
	*v = c == msgpcode.True
}

func (r *reader) scalar(name string, v *float64) {
	r.key(name)
	if c := r.code(); c != msgpcode.Double {
		r.fail(ErrMalformed, "code %#02x where a float64 belongs", c)
	}
	*v = math.Float64frombits(r.bigEndian(8))
}

func (r *reader) text(name string, v *string, limit int) {
	r.key(name)
	b := r.str()
	if len(b) > limit {
		r.fail(ErrTooLarge, "%d bytes, at most %d are allowed", len(b), limit)
		return
	}
	*v = string(b)
}

func (r *reader) numbers(name string, v *[]int, limit int) {
	r.key(name)
	n := r.list(limit)
	*v = make([]int, 0, n)
	for range n {
		x := r.unsigned()
		if x > math.MaxInt32 {
			r.fail(ErrTooLarge, "%d", x)
			return
		}
		*v = append(*v, int(x))
	}
}

func (r *reader) bytes(name string, v *[]byte) {
	r.key(name)
	*v = r.array(typeBytes, 1, nil)
}

func (r *reader) float32s(name string, v *[]float32, columns *int) {
	r.key(name)
	b := r.array(typeFloat32, 4, columns)
	*v = make([]float32, len(b)/4)
	getFloat32s(*v, b)
}

func (r *reader) float64s(name string, v *[]float64, columns *int) {
	r.key(name)
	b := r.array(typeFloat64, 8, columns)
	x := make([]float64, len(b)/8)
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	*v = x
}

// array reads [type, shape, crc, bin] and returns bin, after checking its length against
// the shape and its checksum against crc. A matrix's second dimension goes into columns.
func (r *reader) array(kind string, size uint64, columns *int) []byte {
	if n := r.list(4); n != 4 {
		r.fail(ErrMalformed, "%d parts where an array has four", n)
	}
	if got := r.str(); r.err == nil && string(got) != kind {
		r.fail(ErrMalformed, "elements of type %.20q, expected %q", got, kind)
	}
	n := r.shape(columns)
	checksum := r.unsigned()
	b := r.bin()
	if r.err != nil {
		return nil
	}
	if uint64(len(b)) != n*size {
		r.fail(ErrShape, "%d bytes for %d elements of %d", len(b), n, size)
		return nil
	}
	if sum := uint64(crc32.Checksum(b, castagnoli)); sum != checksum {
		r.fail(ErrChecksum, "CRC32C is %08x, %08x was declared", sum, checksum)
		return nil
	}
	return b
}

// shape reads the dimensions of a vector, or of a matrix if columns is not nil, and
// returns the number of elements.
func (r *reader) shape(columns *int) uint64 {
	dimensions := 1
	if columns != nil {
		dimensions = 2
	}
	if n := r.list(2); n != dimensions {
		r.fail(ErrShape, "%d dimensions, expected %d", n, dimensions)
	}
	n := uint64(1)
	for i := range dimensions {
		d := r.unsigned()
		if d > MaxEpisode {
			r.fail(ErrTooLarge, "dimension %d", d)
			return 0
		}
		if i == 1 {
			*columns = int(d)
		}
		n *= d
	}
	return n
}

func (r *reader) record(name string, v record) {
	r.key(name)
	r.group(func() { v.fields(r) })
}

func (r *reader) require(agree bool) {
	if !agree {
		r.fail(ErrShape, "inconsistent arrays")
	}
}

// present reads a field's name and reports whether its value is not nil; a nil it consumes.
func (r *reader) present(name string, _ bool) bool {
	r.key(name)
	if r.err == nil && len(r.rest) > 0 && r.rest[0] == msgpcode.Nil {
		r.code()
		return false
	}
	return true
}
