package proto

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// castagnoli is the polynomial of CRC32C, which CPUs compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Array types on the wire.
const (
	typeFloat32 = "f4"
	typeFloat64 = "f8"
	typeBytes   = "u1"
)

// writer is the codec that appends fields to a byte slice.
type writer struct {
	out   output
	enc   *msgpack.Encoder
	count byte // fields written of the current group
}

// output is the byte slice that the encoder writes to.
type output struct{ b []byte }

func (o *output) Write(p []byte) (int, error) { o.b = append(o.b, p...); return len(p), nil }
func (o *output) WriteByte(c byte) error      { o.b = append(o.b, c); return nil }

// must panics on an error, since writing to memory cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func newWriter(dst []byte) *writer {
	w := &writer{out: output{dst}, enc: msgpack.GetEncoder()}
	w.enc.Reset(&w.out)
	return w
}

// close returns the encoding; the writer must not be used afterwards.
func (w *writer) close() []byte {
	msgpack.PutEncoder(w.enc)
	return w.out.b
}

// group writes a map of at most 15 fields. Its header, which contains the number of
// fields, comes first on the wire but is known last, so it is filled in afterwards.
func (w *writer) group(visit func()) {
	outer, start := w.count, len(w.out.b)
	w.count = 0
	w.out.b = append(w.out.b, msgpcode.FixedMapLow)
	visit()
	if w.count > msgpcode.FixedMapMask {
		panic("proto: more than 15 fields in a group")
	}
	w.out.b[start] |= w.count
	w.count = outer
}

func (w *writer) key(name string) {
	w.count++
	must(w.enc.EncodeString(name))
}

func (w *writer) number(name string, v *uint64) {
	w.key(name)
	must(w.enc.EncodeUint(*v))
}

func (w *writer) flag(name string, v *bool) {
	w.key(name)
	must(w.enc.EncodeBool(*v))
}

func (w *writer) scalar(name string, v *float64) {
	w.key(name)
	must(w.enc.EncodeFloat64(*v))
}

func (w *writer) text(name string, v *string, _ int) {
	w.key(name)
	must(w.enc.EncodeString(*v))
}

func (w *writer) numbers(name string, v *[]int, _ int) {
	w.key(name)
	must(w.enc.EncodeArrayLen(len(*v)))
	for _, n := range *v {
		must(w.enc.EncodeUint(uint64(n)))
	}
}

func (w *writer) bytes(name string, v *[]byte) {
	w.key(name)
	w.array(typeBytes, len(*v), nil, 1, func(bin []byte) { copy(bin, *v) })
}

func (w *writer) float32s(name string, v *[]float32, columns *int) {
	w.key(name)
	w.array(typeFloat32, len(*v), columns, 4, func(bin []byte) { putFloat32s(bin, *v) })
}

func (w *writer) float64s(name string, v *[]float64, columns *int) {
	w.key(name)
	w.array(typeFloat64, len(*v), columns, 8, func(bin []byte) {
		for i, x := range *v {
			binary.LittleEndian.PutUint64(bin[8*i:], math.Float64bits(x))
		}
	})
}

// array writes [type, shape, crc, bin] for n elements of size bytes, which fill puts into bin. The checksum comes
// first on the wire but is known last, so it is filled in afterwards.
func (w *writer) array(kind string, n int, columns *int, size int, fill func(bin []byte)) {
	must(w.enc.EncodeArrayLen(4))
	must(w.enc.EncodeString(kind))
	if columns == nil {
		must(w.enc.EncodeArrayLen(1))
		must(w.enc.EncodeUint(uint64(n)))
	} else {
		must(w.enc.EncodeArrayLen(2))
		must(w.enc.EncodeUint(uint64(n / max(*columns, 1))))
		must(w.enc.EncodeUint(uint64(*columns)))
	}
	must(w.enc.EncodeUint32(0))
	checksum := len(w.out.b) - 4
	must(w.enc.EncodeBytesLen(n * size))
	start := len(w.out.b)
	w.out.b = slices.Grow(w.out.b, n*size)[:start+n*size]
	bin := w.out.b[start:]
	fill(bin)
	binary.BigEndian.PutUint32(w.out.b[checksum:], crc32.Checksum(bin, castagnoli))
}

func (w *writer) record(name string, v record) {
	w.key(name)
	w.group(func() { v.fields(w) })
}

func (w *writer) present(name string, there bool) bool {
	w.key(name)
	if !there {
		must(w.enc.EncodeNil())
	}
	return there
}

func (w *writer) require(bool) {}
