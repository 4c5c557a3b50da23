package collect

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

var (
	// errRestart reports a chunk that doesn't continue its slot's upload, which must start over.
	errRestart = errors.New("the upload must start over")
	// errSize reports an upload whose size differs from its offer.
	errSize = errors.New("the episode's size is not as offered")
)

// uploads assembles episodes from their chunks. Each slot has one upload at a time, and all of them together stay
// within a credit, so that no actor sends more than the learner has room for. Episodes of one chunk up to
// proto.InlineEpisode need no credit. uploads is plain data: the time is passed in.
type uploads struct {
	credit int // bytes that may still be offered
	lease  time.Duration
	slots  map[proto.Slot]*upload
}

// upload is an upload in progress.
type upload struct {
	ticket   proto.Ticket
	size     int    // as offered
	parts    uint64 // number of parts, 0 before the first has arrived
	received uint64 // parts received so far
	data     []byte // their contents
	expires  time.Time
}

func newUploads(credit int, lease time.Duration) *uploads {
	return &uploads{credit: credit, lease: lease, slots: make(map[proto.Slot]*upload)}
}

// offer reserves credit for an upload and reports whether there was enough. It replaces the slot's previous upload.
func (u *uploads) offer(o *proto.Offer, now time.Time) bool {
	u.drop(o.Slot)
	if int(o.Size) > u.credit {
		return false
	}
	u.credit -= int(o.Size)
	u.slots[o.Slot] = &upload{ticket: o.Ticket, size: int(o.Size), expires: now.Add(u.lease)}
	return true
}

// add adds a chunk. With the last one it returns the encoded episode, before that nil. A repeated chunk is ignored: its
// acknowledgement was lost.
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
		return nil, fmt.Errorf("%w: part %d of %d came where part %d of %d belongs",
			errRestart, c.Part, c.Parts, up.received, up.parts)
	}
	up.expires = now.Add(u.lease)
	if c.Part < up.received {
		return nil, nil
	}
	return u.extend(up, c)
}

// inline reports whether a chunk is a complete episode that needed no offer.
func inline(c *proto.Chunk) bool { return c.Parts == 1 && len(c.Data) <= proto.InlineEpisode }

// extend adds the next chunk. The buffer grows with the data received, up to fourfold, not with the size offered: with
// few chunks it grows once.
func (u *uploads) extend(up *upload, c *proto.Chunk) ([]byte, error) {
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
	u.drop(c.Slot)
	return up.data, nil
}

// expire drops the uploads that stopped coming.
func (u *uploads) expire(now time.Time) {
	for slot, up := range u.slots {
		if !up.expires.After(now) {
			u.drop(slot)
		}
	}
}

// drop discards a slot's upload and returns its credit.
func (u *uploads) drop(slot proto.Slot) {
	if up := u.slots[slot]; up != nil {
		u.credit += up.size
		delete(u.slots, slot)
	}
}
