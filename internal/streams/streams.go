// Package streams gives every use of randomness its own stream, a function of the run's seed and a few labels alone. So
// an episode is independent of the actor that plays it, and a run of interruptions.
package streams

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// The first label of a stream: its purpose. The values are part of the recipe of every recorded run, so new
// purposes are appended and none is ever renumbered.
const (
	// Episode is for playing a ticket; labels: batch, index.
	Episode uint64 = iota + 1
	// Policy is for the policy's initial parameters.
	Policy
	// Critic is for the critic's initial parameters.
	Critic
	// Sketch is for the random sketches of an update; label: batch.
	Sketch
	// Probe is for the stochastic trace and log-determinant probes of an update; label: batch.
	Probe
	// Study is for a study's own randomness: fresh batches, and resamples of its measurements.
	Study
	// Evaluation is for playing a policy to see how good it is; label: index of the episode. No episode of
	// training has the same stream, whatever its seed.
	Evaluation
	// Segments is for a stream of episodes that is played in segments; labels: the batch of its first, its number.
	Segments
	// Value is for the initial parameters of a value function with a network of its own.
	Value
)

// New returns the stream of (seed, labels): ChaCha8 keyed by SHA-256 of their 64-bit little-endian values.
// Streams of different seeds or labels are independent for every practical purpose; since each value takes
// eight bytes, a longer list of labels never coincides with a shorter one.
func New(seed uint64, labels ...uint64) *rand.Rand {
	return rand.New(rand.NewChaCha8(Key(seed, labels...)))
}

// Key returns the ChaCha8 key of New's stream, for a caller that reseeds one generator instead of
// allocating one per stream.
func Key(seed uint64, labels ...uint64) [32]byte {
	message := binary.LittleEndian.AppendUint64(make([]byte, 0, 64), seed)
	for _, label := range labels {
		message = binary.LittleEndian.AppendUint64(message, label)
	}
	return sha256.Sum256(message)
}
