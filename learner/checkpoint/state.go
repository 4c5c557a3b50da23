// Package checkpoint keeps the state of a run on disk, so that a run killed at any moment goes on as if it had not been.
//
// # The state
//
// A [State] is taken between two iterations. Random numbers need no more than its counters: every stream is derived
// from the run's seed and an iteration's number. The parameters, the optimisers' moments, the normaliser and the
// critic are named arrays.
//
// # The file
//
// One state is one safetensors file, which Python's safetensors package opens too: its metadata are the counters and
// the run's settings, its tensors the arrays, in the order of their names, and last "sha256", the digest of every
// byte of the file before it.
//
// # The directory
//
// A [Store] holds the newest two states, the one whose policy played the best batch, and those that it was told to
// keep. Files are written whole before they replace anything, and of the two newest at least one is always whole,
// whatever happens to the other.
package checkpoint

import "time"

// A State is all that a run needs to go on.
type State struct {
	Counters
	Arrays map[string][]float64 // the numbers, by names such as "policy/parameters"
}

// Counters say how far a run has come.
type Counters struct {
	Iteration uint64        // iterations done, which is also the version of the policy in the state
	Epoch     uint64        // the learner's lease term
	Steps     uint64        // environment steps in all batches
	Episodes  uint64        // episodes in all batches
	Elapsed   time.Duration // wall clock, over all of the run's starts: the one thing that does not repeat
	Best      *Best         // nil before the first batch
}

// Best is the best batch so far.
type Best struct {
	Return    float64 // mean undiscounted return of its episodes
	Iteration uint64  // of the state whose policy played it
}
