package collect

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

var (
	// errRestart is a chunk that doesn't continue its slot's upload, which must begin again.
	errRestart = errors.New("the upload must begin again")
	// errSize is an upload that isn't as large as its offer said.
	errSize = errors.New("the episode's size is not as offered")
)

// uploads puts episodes together from their chunks. Each slot has one at a time, and all of them together stay within a
// credit, so that no actor sends what the learner has no room for. Episodes of one chunk up to
// proto.InlineEpisode need no credit. It is plain data: the time is passed in.
type uploads struct {
	credit int // bytes that may still be offered
	lease  time.Duration
	slots  map[proto.Slot]*upload
	spare  *buffers
}

// upload is an episode under way.
type upload struct {
	ticket   proto.Ticket
	size     int    // as offered
	parts    uint64 // into which it was cut, 0 before the first has come
	received uint64 // parts that have come
	data     []byte // and what they hold
	expires  time.Time
}

// newUploads returns uploads that take buffers from spare and leave them there.
func newUploads(credit int, lease time.Duration, spare *buffers) *uploads {
	return &uploads{credit: credit, lease: lease, slots: make(map[proto.Slot]*upload), spare: spare}
}

// offer reserves credit for an upload and reports whether there was any. It takes the place of the slot's last one.
func (u *uploads) offer(o *proto.Offer, now time.Time) bool {
	u.drop(o.Slot)
	if int(o.Size) > u.credit {
		return false
	}
	u.credit -= int(o.Size)
	u.slots[o.Slot] = &upload{ticket: o.Ticket, size: int(o.Size), expires: now.Add(u.lease)}
	return true
}

// add takes in a chunk. It returns the encoded episode with the last one, and nil before. A chunk that came before is
// ignored: its acknowledgement was lost.
func (u *uploads) add(c *proto.Chunk, now time.Time) ([]byte, error) {
	if inline(c) {
		return c.Data, nil
	}
	up := u.slots[c.Slot]
	if up == nil || up.ticket != c.Ticket {
		return nil, fmt.Errorf("%w: nothing was offered", errRestart)
	}
	if up.received == 0 {
		up.parts = c.Parts
	}
	if c.Part > up.received || c.Parts != up.parts {
		u.drop(c.Slot)
		return nil, fmt.Errorf("%w: part %d of %d came where part %d of %d belongs", errRestart, c.Part, c.Parts, up.received, up.parts)
	}
	up.expires = now.Add(u.lease)
	if c.Part < up.received {
		return nil, nil
	}
	return u.extend(up, c)
}

// inline reports whether a chunk is an episode that needed no offer.
func inline(c *proto.Chunk) bool { return c.Parts == 1 && len(c.Data) <= proto.InlineEpisode }

// extend adds the chunk that is next. The room grows with what comes, up to four times as much, not with what was
// announced: a few chunks need it once.
func (u *uploads) extend(up *upload, c *proto.Chunk) ([]byte, error) {
	if up.data == nil {
		up.data = u.spare.take(up.size)
	}
	if n := len(up.data) + len(c.Data); n > cap(up.data) {
		up.data = slices.Grow(up.data, max(n, min(4*n, up.size))-len(up.data))
	}
	up.data = append(up.data, c.Data...)
	up.received++
	last := up.received == up.parts
	if len(up.data) > up.size || last && len(up.data) != up.size {
		u.drop(c.Slot)
		return nil, fmt.Errorf("%w: %d bytes, %d were offered", errSize, len(up.data), up.size)
	}
	if !last {
		return nil, nil
	}
	data := up.data
	up.data = nil // the caller's
	u.drop(c.Slot)
	return data, nil
}

// expire drops the uploads that stopped coming.
func (u *uploads) expire(now time.Time) {
	for slot, up := range u.slots {
		if !up.expires.After(now) {
			u.drop(slot)
		}
	}
}

// drop forgets a slot's upload and returns its credit.
func (u *uploads) drop(slot proto.Slot) {
	if up := u.slots[slot]; up != nil {
		u.credit += up.size
		u.spare.give(up.data)
		delete(u.slots, slot)
	}
}

// maxSpare bounds the memory that buffers keep, in bytes: ten of the largest task's episodes.
const maxSpare = 16 << 20

// buffers keep the memory that episodes were put together in for the next ones: to have new memory cleared takes longer than to
// copy an episode.
type buffers struct {
	idle [][]byte
	size int // the sum of their capacities
}

// take returns an empty buffer with room for size bytes, or nil if there is none.
func (b *buffers) take(size int) []byte {
	i := slices.IndexFunc(b.idle, func(idle []byte) bool { return cap(idle) >= size })
	if i < 0 {
		return nil
	}
	taken := b.idle[i]
	b.idle = slices.Delete(b.idle, i, i+1)
	b.size -= cap(taken)
	return taken[:0]
}

// give keeps a buffer that nobody uses any more, if there is room: older ones, which were too small, make it.
func (b *buffers) give(buffer []byte) {
	if cap(buffer) == 0 || cap(buffer) > maxSpare {
		return
	}
	for b.size+cap(buffer) > maxSpare {
		b.size -= cap(b.idle[0])
		b.idle = slices.Delete(b.idle, 0, 1)
	}
	b.idle = append(b.idle, buffer)
	b.size += cap(buffer)
}
