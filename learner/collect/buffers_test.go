package collect

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

// Uploads that begin, end and break off in any order get back what they sent, though they use each other's buffers; no
// buffer is in use twice, and what is kept stays within its bound.
func TestUploadsShareBuffers(t *testing.T) {
	const slots, seed = 8, 7
	rng, spare := rand.New(rand.NewPCG(seed, 0)), new(buffers)
	u := newUploads(proto.Credit, time.Minute, spare)
	var parts [slots][]*proto.Chunk
	var sent [slots][]byte
	var held [][]byte // whole episodes that are being decoded, with what they must be
	reused, whole := 0, 0
	for range 5000 {
		n := rng.IntN(slots)
		switch slot := slotNumber(n); {
		case len(parts[n]) == 0 || rng.IntN(20) == 0:
			sent[n] = bytes.Repeat([]byte{byte(rng.Uint32())}, 70_000+rng.IntN(3_000_000))
			parts[n] = chunks(slot, sent[n], 2+rng.IntN(4))
			if !u.offer(offered(slot, len(sent[n])), start) {
				t.Fatal("no credit")
			}
			if len(spare.idle) > 0 {
				reused++
			}
		default:
			data, err := u.add(parts[n][0], start)
			if parts[n] = parts[n][1:]; err != nil || (data != nil) != (len(parts[n]) == 0) {
				t.Fatalf("%d bytes, %v, %d parts are left", len(data), err, len(parts[n]))
			}
			if data != nil {
				held = append(held, data, sent[n])
				whole++
			}
		}
		if len(held) > 2*rng.IntN(4) {
			if !bytes.Equal(held[0], held[1]) {
				t.Fatal("an episode is not what was sent")
			}
			spare.give(held[0])
			held = held[2:]
		}
		size := 0
		for _, idle := range spare.idle {
			size += cap(idle)
		}
		if size != spare.size || size > maxSpare {
			t.Fatalf("%d bytes are kept, %d are counted, %d allowed", size, spare.size, maxSpare)
		}
	}
	if reused < 100 || whole < 100 {
		t.Errorf("%d uploads, buffers to reuse for %d: nothing is tested", whole, reused)
	}
}

// One buffer that is too small for what comes makes room for those that are not.
func TestBuffersMakeRoom(t *testing.T) {
	b := new(buffers)
	for range 2 * maxSpare >> 20 {
		b.give(make([]byte, 1<<20))
	}
	for range 4 {
		b.give(make([]byte, 3<<20))
	}
	b.give(make([]byte, maxSpare+1))
	b.give(nil)
	for i := range 4 {
		if got := b.take(2 << 20); cap(got) != 3<<20 || len(got) != 0 {
			t.Errorf("buffer %d: %d of %d bytes", i, len(got), cap(got))
		}
	}
	if got := b.take(2 << 20); got != nil {
		t.Errorf("a buffer of %d bytes", cap(got))
	}
	if got := b.take(1); cap(got) != 1<<20 || b.size != maxSpare-13<<20 {
		t.Errorf("a buffer of %d bytes; %d are left", cap(got), b.size)
	}
}
