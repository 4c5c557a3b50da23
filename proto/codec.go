package proto

import (
	"fmt"
	"slices"
)

// A Message can be sent: it lists its fields once, for reading and writing alike.
type Message interface {
	// kind names the message on the wire.
	kind() string
	// limit is the largest encoding accepted, in bytes.
	limit() int
	// fields visits every field, always in the same order.
	fields(codec)
	// check validates what types cannot express: which values make sense together.
	check() error
}

// A codec visits a message's fields: the writer appends them to the encoding, the
// reader fills them in from it.
type codec interface {
	number(name string, v *uint64)
	flag(name string, v *bool)
	scalar(name string, v *float64)
	text(name string, v *string, limit int)
	numbers(name string, v *[]int, limit int)
	bytes(name string, v *[]byte)
	// float32s and float64s visit an array: a row-major matrix with *columns columns, or a
	// vector if columns is nil.
	float32s(name string, v *[]float32, columns *int)
	float64s(name string, v *[]float64, columns *int)
	// record visits the fields of another type; present reads or writes the name of one that may be absent, and returns
	// whether it is there, in which case group visits its fields.
	record(name string, v record)
	present(name string, there bool) bool
	group(visit func())
	// require fails a read whose arrays' shapes don't agree.
	require(agree bool)
}

// record is a part of messages.
type record interface{ fields(codec) }

// optional visits a record that may be absent (nil).
func optional[T any, P interface {
	*T
	record
}](c codec, name string, v *P) {
	there := c.present(name, *v != nil)
	if _, reading := c.(*reader); reading {
		*v = nil
		if there {
			*v = new(T)
		}
	}
	if there {
		c.group(func() { (*v).fields(c) })
	}
}

// copied visits bytes that do not share memory with the encoding.
func copied(c codec, name string, v *[]byte) {
	c.bytes(name, v)
	if _, reading := c.(*reader); reading {
		*v = slices.Clone(*v)
	}
}

// Marshal appends m's encoding to dst and returns the result. If Unmarshal would refuse
// the message, Marshal returns an error and dst unchanged.
func Marshal(dst []byte, m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return dst, fmt.Errorf("%s: %w", m.kind(), err)
	}
	w := newWriter(dst)
	w.group(func() {
		header(w, m)
		m.fields(w)
	})
	encoded := w.close()
	if size := len(encoded) - len(dst); size > m.limit() {
		return dst, fmt.Errorf("%s: %w: %d bytes, at most %d are allowed", m.kind(), ErrTooLarge, size, m.limit())
	}
	return encoded, nil
}

// Unmarshal decodes data into m, which it overwrites. After an error m's contents are
// unspecified. A [Chunk]'s Data shares memory with data; nothing else does.
func Unmarshal(data []byte, m Message) error {
	if len(data) > m.limit() {
		return fmt.Errorf("%s: %w: %d bytes, at most %d are allowed", m.kind(), ErrTooLarge, len(data), m.limit())
	}
	r := &reader{rest: data}
	r.group(func() {
		header(r, m)
		m.fields(r)
	})
	if r.err == nil && len(r.rest) > 0 {
		r.fail(ErrMalformed, "%d surplus bytes", len(r.rest))
	}
	if r.err == nil {
		r.err = m.check()
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", m.kind(), r.err)
	}
	return nil
}

// header visits the two fields that begin every message.
func header(c codec, m Message) {
	version, kind := uint64(Version), m.kind()
	c.number("v", &version)
	c.text("kind", &kind, MaxName)
	r, reading := c.(*reader)
	switch {
	case !reading || r.err != nil:
	case version != Version:
		reason := ErrVersion
		if version < Version {
			reason = ErrOlder
		}
		r.fail(reason, "the message is of version %d, this program of version %d: run the same release on both sides", version, Version)
	case kind != m.kind():
		r.fail(ErrMalformed, "the message is of kind %q", kind)
	}
}
