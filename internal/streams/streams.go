// Package streams gives every use of randomness a stream of its own. A stream is a function of the run's seed
// and a few labels that say what it is for, and of nothing else: not of what other streams drew before, nor of
// who draws. That is what makes an episode the same whoever plays it, and a run the same after it was resumed.
package streams

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// The first label of a stream: what it is for. The values are part of the recipe of every recorded run, so a
// new purpose goes to the end and none is ever renumbered.
const (
	// Episode plays one ticket; labels: iteration, index.
	Episode uint64 = iota + 1
	// Policy draws the policy's first parameters.
	Policy
	// Critic draws the critic's first parameters.
	Critic
	// Sketch draws the random sketches of one iteration's update; label: iteration.
	Sketch
	// Probe draws stochastic trace and log-determinant probes of one iteration; label: iteration.
	Probe
	// Study is what a study draws beside its training runs: fresh batches, and resamples of what was measured.
	Study
)

// New returns the stream of (seed, labels): ChaCha8 keyed by SHA-256 of their 64-bit little-endian values.
// Streams of different seeds or labels are independent for every practical purpose; since each value takes
// eight bytes, a longer list of labels never coincides with a shorter one.
func New(seed uint64, labels ...uint64) *rand.Rand {
	return rand.New(rand.NewChaCha8(Key(seed, labels...)))
}

// Key returns the ChaCha8 key of New's stream, for a caller that reseeds one generator in place of
// allocating one a stream.
func Key(seed uint64, labels ...uint64) [32]byte {
	message := binary.LittleEndian.AppendUint64(make([]byte, 0, 64), seed)
	for _, label := range labels {
		message = binary.LittleEndian.AppendUint64(message, label)
	}
	return sha256.Sum256(message)
}
