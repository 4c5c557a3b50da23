package train_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
)

// The kept batches of a checkpoint are not trusted.
func TestResumeFromHostileBatches(t *testing.T) {
	s := settings(t, "Hopper-v2", config.TRPO, config.UAPG)
	s.Batch, s.Iterations, s.Reuse = 200, 2, 3
	state := trainSerially(t, s).states[2]
	if n := len(state.Arrays["reuse.episodes"]); n != 2 || state.Arrays["reuse.noise"][1] <= 0 {
		t.Fatalf("%d batches are kept, their noise is %v", n, state.Arrays["reuse.noise"])
	}
	for name, values := range map[string][]float64{
		"reuse.episodes": {0, -1, 0.5, 1e300, math.NaN()},
		"reuse.lengths":  {0, -1, 0.5, 1e300},
		"reuse.ends":     {-1, 4, 0.5},
		"reuse.noise":    {-1, math.Inf(1)},
		"reuse.rewards":  {math.NaN()},
	} {
		for _, value := range values {
			arrays := maps.Clone(state.Arrays)
			arrays[name] = slices.Clone(arrays[name])
			arrays[name][0] = value
			err := newRun(t, s, nil, nil).Resume(&checkpoint.State{Counters: state.Counters, Arrays: arrays}, 2)
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(name, "reuse.")) {
				t.Errorf("%s with %v: %v", name, value, err)
			}
		}
	}
}
