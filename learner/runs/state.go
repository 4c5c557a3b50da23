package runs

import "time"

// A State is everything a run needs to resume.
type State struct {
	Counters
	// Arrays are the numbers, by name: docs/files.md lists them.
	Arrays map[string][]float64
	// Networks are the sizes of the layers of multilayer perceptrons (package nn), by name: the array NAME.params has
	// the parameters of the network NAME, followed by the log standard deviations if that is the policy.
	Networks map[string][]int
}

// Counters measure a run's progress.
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
	// Evaluated reports whether Return is an evaluation's, with the mean action. Otherwise it is the return of the
	// iteration's batch, and no policy has been evaluated.
	Evaluated bool
}
