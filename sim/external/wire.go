package external

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// version is the protocol's.
const version = 1

// errMessage reports an answer that makes no sense.
var errMessage = errors.New("its process's answer makes no sense")

// A refusal is an error that the process reports itself, and survives.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// The bits of how a step ends.
const (
	terminated = 1 << iota
	truncated
	failed
	ends
)

// wire writes requests and reads answers.
type wire struct {
	file    *File
	out     bytes.Buffer // a request, with its length
	encoder *msgpack.Encoder
	answer  []byte // an answer
	in      *bytes.Reader
	decoder *msgpack.Decoder
}

func newWire(f *File) *wire {
	w := &wire{file: f, in: bytes.NewReader(nil)}
	w.encoder = msgpack.NewEncoder(&w.out)
	w.encoder.UseCompactInts(true)
	w.decoder = msgpack.NewDecoder(w.in)
	return w
}

// must panics at an error, for writing to memory cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// begin begins a request, with its first parts.
func (w *wire) begin(parts int, kind string) {
	w.out.Reset()
	w.out.Write([]byte{0, 0, 0, 0}) // the length
	must(w.encoder.EncodeArrayLen(parts))
	must(w.encoder.EncodeString(kind))
}

func (w *wire) hello(environments int) {
	w.begin(3, "hello")
	must(w.encoder.EncodeUint(version))
	must(w.encoder.EncodeUint(uint64(environments)))
}

func (w *wire) reset(c *call) {
	w.begin(3, "reset")
	must(w.encoder.EncodeUint(uint64(c.index)))
	must(w.encoder.EncodeUint(uint64(c.seed)))
}

func (w *wire) step(calls []*call) {
	w.begin(3, "step")
	must(w.encoder.EncodeArrayLen(len(calls)))
	for _, c := range calls {
		must(w.encoder.EncodeUint(uint64(c.index)))
	}
	must(w.encoder.EncodeBytesLen(8 * len(calls) * w.file.Actions))
	for _, c := range calls {
		for _, x := range c.action {
			w.out.Write(binary.LittleEndian.AppendUint64(w.out.AvailableBuffer(), math.Float64bits(x)))
		}
	}
}

// exchange sends the request and reads its answer.
func (w *wire) exchange(to io.Writer, from io.Reader) error {
	request := w.out.Bytes()
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	if _, err := to.Write(request); err != nil {
		return err
	}
	// A pipe holds a short answer as a whole.
	w.answer = slices.Grow(w.answer[:0], 4<<10)
	w.answer = w.answer[:cap(w.answer)]
	n, err := io.ReadAtLeast(from, w.answer, 4)
	if err != nil {
		return err
	}
	length := int(binary.BigEndian.Uint32(w.answer))
	if most := w.limit(); length > most || n > 4+length {
		return fmt.Errorf("%w: it begins with %q, and only messages may be written to its standard output", errMessage,
			w.answer[:min(n, 80)])
	}
	if n < 4+length {
		w.answer = slices.Grow(w.answer[:n], 4+length-n)[:4+length]
		if _, err := io.ReadFull(from, w.answer[n:]); err != nil {
			return err
		}
	}
	w.answer = w.answer[4 : 4+length]
	return nil
}

// limit is the length of the longest answer.
func (w *wire) limit() int {
	return w.file.Environments*(8*w.file.Observations+8+1+maxWords+8) + 1<<10
}

// answered reads the head of an answer, which may be a refusal.
func (w *wire) answered(kind string, least, most int) error {
	w.in.Reset(w.answer)
	w.decoder.Reset(w.in)
	n, err := w.decoder.DecodeArrayLen()
	if err != nil {
		return malformed(err)
	}
	got, err := w.bytes(0, 80)
	switch {
	case err != nil:
		return err
	case n == 2 && string(got) == "error":
		text, err := w.text()
		if err != nil {
			return err
		}
		return &refusal{text}
	case n < least || n > most || string(got) != kind:
		return fmt.Errorf("%w: %q of %d parts, want %q of %d", errMessage, got, n, kind, least)
	}
	return nil
}

func malformed(err error) error { return fmt.Errorf("%w: %w", errMessage, err) }

// bytes reads a string or byte string of from least to most bytes, which is valid until the next answer.
func (w *wire) bytes(least, most int) ([]byte, error) {
	n, err := w.decoder.DecodeBytesLen()
	if err != nil {
		return nil, malformed(err)
	}
	if n < least || n > min(most, w.in.Len()) {
		return nil, fmt.Errorf("%w: %d bytes where %d to %d belong", errMessage, n, least, most)
	}
	from := len(w.answer) - w.in.Len()
	_, err = w.in.Seek(int64(n), io.SeekCurrent)
	must(err)
	return w.answer[from : from+n], nil
}

// text reads a text.
func (w *wire) text() (string, error) {
	text, err := w.bytes(0, len(w.answer))
	text = text[max(0, len(text)-maxWords):]
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), err
}

// next takes as many numbers as there is room for off a byte string.
func next(from []byte, to []float64) (rest []byte) {
	for i := range to {
		to[i] = math.Float64frombits(binary.LittleEndian.Uint64(from[8*i:]))
	}
	return from[8*len(to):]
}

// end checks that nothing follows.
func (w *wire) end() error {
	if n := w.in.Len(); n > 0 {
		return fmt.Errorf("%w: %d bytes follow its end", errMessage, n)
	}
	return nil
}

// greeted checks that the process has the environments that the file describes.
func (w *wire) greeted(f *File) error {
	if err := w.answered("hello", 4, 5); err != nil {
		return err
	}
	var numbers [3]int
	for i := range numbers {
		n, err := w.decoder.DecodeInt()
		if err != nil {
			return malformed(err)
		}
		numbers[i] = n
	}
	var choices []int
	if w.in.Len() > 0 {
		if err := w.decoder.Decode(&choices); err != nil {
			return malformed(err)
		}
	}
	switch {
	case numbers[0] != version:
		return fmt.Errorf("its process speaks version %d of the protocol, this program %d", numbers[0], version)
	case numbers[1] != f.Observations || numbers[2] != f.Actions:
		return fmt.Errorf("it has %d observations and %d actions, and its task file says %d and %d: "+
			"correct the file, or write it anew "+
			"(python -m dbqpg.describe)", numbers[1], numbers[2], f.Observations, f.Actions)
	case !slices.Equal(choices, f.Choices):
		return fmt.Errorf("its actions have %v choices, and its task file says %v: correct the file's choices", choices,
			f.Choices)
	}
	return w.end()
}

// observed reads the answer to a reset.
func (w *wire) observed(c *call) error {
	if err := w.answered("reset", 2, 2); err != nil {
		return err
	}
	size := 8 * len(c.observation)
	observation, err := w.bytes(size, size)
	if err != nil {
		return err
	}
	next(observation, c.observation)
	return w.end()
}

// stepped reads the answer to a step.
func (w *wire) stepped(calls []*call) error {
	if err := w.answered("step", 5, 5); err != nil {
		return err
	}
	size := 8 * len(calls) * w.file.Observations
	observations, err := w.bytes(size, size)
	if err != nil {
		return err
	}
	rewards, err := w.bytes(8*len(calls), 8*len(calls))
	if err != nil {
		return err
	}
	for i, c := range calls {
		observations = next(observations, c.observation)
		c.reward = math.Float64frombits(binary.LittleEndian.Uint64(rewards[8*i:]))
	}
	return w.ended(calls)
}

// ended reads how steps have ended.
func (w *wire) ended(calls []*call) error {
	bits, err := w.bytes(len(calls), len(calls))
	if err != nil {
		return err
	}
	errs, err := w.decoder.DecodeArrayLen()
	if err != nil {
		return malformed(err)
	}
	for i, c := range calls {
		end := bits[i]
		c.terminated, c.truncated = end&terminated != 0, end&truncated != 0
		if end >= ends || end&failed != 0 && errs <= 0 {
			return fmt.Errorf("%w: a step ends with %d, and %d errors", errMessage, end, errs)
		}
		if end&failed != 0 {
			errs--
			text, err := w.text()
			if err != nil {
				return err
			}
			c.err = &refusal{text}
		}
	}
	if errs > 0 {
		return fmt.Errorf("%w: %d errors too many", errMessage, errs)
	}
	return w.end()
}
