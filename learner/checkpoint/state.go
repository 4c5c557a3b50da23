// Package checkpoint keeps the state of a run on disk, so that a run killed at any moment resumes as if nothing had
// happened.
//
// # The state
//
// A [State] is taken between two iterations. It contains no random state beyond its counters, since every stream is
// derived from the run's seed and an iteration's number. The parameters, the optimisers' moments, the normaliser and
// the critic are named arrays.
//
// # The file
//
// A state is one safetensors file, which Python's safetensors package can open too: its metadata are the counters and
// the run's settings; its tensors are the arrays, sorted by name, followed by "sha256", the digest of all preceding
// bytes of the file. A network's parameters are a tensor for each layer's weight and bias, as in PyTorch:
// "policy.0.weight" (out × in), "policy.0.bias" (out), ..., "log_std".
//
// # The directory
//
// A [Store] holds the newest two states, the one with the best policy, and those that Keep names. Files
// are written completely before they replace anything, and at least one of the newest two is always intact, whatever
// happens to the other.
package checkpoint

import "time"

// A State is everything a run needs to resume.
type State struct {
	Counters
	// Arrays are the numbers, by name: docs/policy-format.md lists them.
	Arrays map[string][]float64
	// Networks are the sizes of the layers of multilayer perceptrons (package nn), by name: the array NAME.params has the
	// parameters of the network NAME, followed by the log standard deviations if that is the policy.
	Networks map[string][]int
}

// Counters say how far a run has got.
type Counters struct {
	Iteration uint64        // completed iterations; the next one, of this number, plays the policy in the state
	Epoch     uint64        // the run's epoch
	Steps     uint64        // environment steps in all batches
	Episodes  uint64        // episodes in all batches
	Elapsed   time.Duration // wall-clock time over all of the run's starts; the only field that is not reproducible
	Best      *Best         // nil before the first evaluation or batch
	// From is the SHA-256, in hexadecimal, of the checkpoint that the run started from; "" for a run that started from
	// a new policy.
	From string
}

// Best is the policy with the highest return so far.
type Best struct {
	Return    float64 // mean undiscounted return of its episodes
	Iteration uint64  // of the checkpoint that has it
	// Evaluated reports whether the episodes are those of an evaluation, with the mean action. Otherwise they are those
	// of the iteration's batch, and no policy has been evaluated.
	Evaluated bool
}
