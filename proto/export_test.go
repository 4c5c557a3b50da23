package proto

import "github.com/vmihailenco/msgpack/v5"

// Bytes returns the array's encoding.
func (a *Array[T]) Bytes() ([]byte, error) { return encoding(a) }

// Bytes returns the bytes' encoding.
func (b *Bytes) Bytes() ([]byte, error) { return encoding(b) }

func encoding(v msgpack.CustomEncoder) ([]byte, error) {
	var out output
	err := v.EncodeMsgpack(msgpack.NewEncoder(&out))
	return out, err
}
