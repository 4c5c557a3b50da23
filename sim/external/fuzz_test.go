package external

import (
	"bytes"
	"errors"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// FuzzAnswer shows that no answer does harm: each is taken or refused.
func FuzzAnswer(f *testing.F) {
	file := &File{Observations: 3, Actions: 2, Environments: 2, Command: []string{"-"}}
	for _, answer := range [][]any{
		{"hello", 1, 3, 2},
		{"reset", make([]byte, 24)},
		{"step", make([]byte, 48), make([]byte, 16), []byte{0, 4}, []string{"failed"}},
		{"step", make([]byte, 48), make([]byte, 16), []byte{3, 1}, []string{}},
		{"error", "refused"},
		{},
	} {
		message, err := msgpack.Marshal(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{0, 0, 0, byte(len(message))}, message...))
	}
	f.Add([]byte("hello\n"))
	f.Add([]byte{0, 0, 0, 9, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xc6, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, sent []byte) {
		calls := []*call{{observation: make([]float64, 3)}, {observation: make([]float64, 3)}}
		w := newWire(file)
		w.hello(2)
		if err := w.exchange(new(bytes.Buffer), bytes.NewReader(sent)); err != nil {
			return
		}
		for _, err := range []error{w.greeted(file), w.observed(calls[0]), w.stepped(calls)} {
			var refusal *refusal
			if err == nil && len(w.answer) == 0 || errors.As(err, &refusal) && len(refusal.text) > maxWords+2 {
				t.Errorf("%x is taken: %v", sent, err)
			}
		}
		for _, c := range calls {
			if c.err != nil && len(c.err.Error()) > maxWords+2 {
				t.Errorf("an error of %d bytes", len(c.err.Error()))
			}
		}
	})
}
