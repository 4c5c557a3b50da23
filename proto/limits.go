package proto

import (
	"errors"
	"fmt"
	"time"
)

// Version is the protocol's version. Both sides must speak the same one.
const Version = 5

// Limits on the contents of messages. Sizes are in bytes.
const (
	// MaxName bounds the names of runs, actors and tasks.
	MaxName = 128
	// MaxReason bounds the text of a refusal or a failure.
	MaxReason = 512
	// MaxLayers bounds the hidden layers of a policy.
	MaxLayers = 8
	// MaxControl bounds a message without arrays.
	MaxControl = 4 << 10
	// MaxEpisode bounds an encoded episode. 1,000 steps of the largest task
	// (376 observations, 17 actions) take 1.6 MB.
	MaxEpisode = 16 << 20
	// MaxState bounds a stream's encoded state. The largest task's takes 3.3 KB.
	MaxState = 32 << 10
	// MaxSegment bounds the steps of a segment.
	MaxSegment = 1 << 16
	// MaxPolicy bounds an encoded policy.
	MaxPolicy = 16 << 20
	// MaxNumber bounds the numbers in messages, so that no update overflows. Engines give up long before.
	MaxNumber = 1e15
	// MaxChunk bounds a chunk's message, whatever the server allows.
	MaxChunk = 512 << 10
	// ChunkMargin is the part of a message reserved for a chunk's other fields.
	ChunkMargin = 4 << 10

	// InlineEpisode is the largest episode sent without asking for credit first.
	// 250 slots can send one at the same time, in addition to the learner's full
	// credit, before a subscription's 64 MB are pending.
	InlineEpisode = 64 << 10
	// Credit is the total size of episodes larger than InlineEpisode that a learner
	// lets its actors have in flight at any time.
	Credit = 48 << 20
)

// AnnounceInterval is the interval between a learner's announcements when nothing happens; an actor that hears nothing
// for much longer forgets the run.
const AnnounceInterval = time.Second

// ChunkSize returns how many bytes of an episode go into one chunk on a server that
// accepts messages of maxPayload bytes. The result is not positive if the server's
// limit is too low to work with.
func ChunkSize(maxPayload int) int {
	return min(maxPayload, MaxChunk) - ChunkMargin
}

// Reasons for refusing a message. Errors from [Marshal] and [Unmarshal] wrap one of these
// and name the message and the field.
var (
	// ErrVersion reports a message of another protocol version.
	ErrVersion = errors.New("another protocol version")
	// ErrOlder is ErrVersion for a message of an earlier version.
	ErrOlder = fmt.Errorf("%w, an earlier one", ErrVersion)
	// ErrMalformed reports a message that is truncated or not the expected msgpack.
	ErrMalformed = errors.New("malformed")
	// ErrChecksum reports an array whose CRC32C does not match.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrTooLarge reports a message, name or list above its limit.
	ErrTooLarge = errors.New("too large")
	// ErrShape reports arrays whose shapes are inconsistent.
	ErrShape = errors.New("shapes do not fit")
	// ErrNotFinite reports a NaN, an infinity, or a number beyond [MaxNumber].
	ErrNotFinite = errors.New("not finite, or beyond 1e15")
	// ErrInvalid reports a value that no correct sender would send.
	ErrInvalid = errors.New("invalid")
)
