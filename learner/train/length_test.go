package train_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
)

// A run of so many steps in segments ends exactly there, whatever they are, by a last batch of at least the usual size;
// one that is stopped anywhere, and resumed, ends with the same bits.
func TestExactSteps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3 {
		s := inSegments(t, 6, 20) // batches of 120
		if rng.IntN(2) == 0 {
			s.FisherSamples = 1.5 // 180
		}
		full := 120 * uint64(2*s.FisherSamples) / 2
		s.Length = config.Length{Steps: 2*full + rng.Uint64N(2*full)}
		want := trainSerially(t, s)
		last := want.states[len(want.states)-1]
		if last.Steps != s.Steps || want.rows[len(want.rows)-1].Steps != s.Steps {
			t.Errorf("%d steps, want %d", last.Steps, s.Steps)
		}
		for i, state := range want.states[1:] {
			took, whole := state.Steps-want.states[i].Steps, i+2 < len(want.states)
			if whole && took != full || took < full || took >= 2*full {
				t.Errorf("batch %d of %d has %d steps, where %d are usual", i+1, len(want.states)-1, took, full)
			}
		}
		for i, state := range want.states {
			got := &journal{states: slices.Clone(want.states[:i+1]), rows: slices.Clone(want.rows[:i])}
			r := newRun(t, s, newSerial(t, s), got)
			if err := r.Resume(state, 2); err != nil {
				t.Fatal(err)
			}
			if err := r.Train(t.Context()); err != nil {
				t.Fatal(err)
			}
			requireEqual(t, "resumed", got, want)
		}
		over := new(journal)
		trainOverNATS(t, s, over)
		requireEqual(t, "over NATS", over, want)
	}
}

// A run of so many steps in whole episodes is the beginning of a longer one, up to the first batch that reaches them.
// It is raised to what the longer one is.
func TestStepsOfWholeEpisodes(t *testing.T) {
	s := settings(t, "Hopper-v2", config.NPG, config.MonteCarlo)
	s.Batch, s.Iterations = 200, 5
	long := trainSerially(t, s)
	for i, state := range long.states {
		for _, steps := range []uint64{state.Steps - 1, state.Steps, state.Steps + 1} {
			want := i
			if steps > state.Steps {
				want++
			}
			if s.Length = (config.Length{Steps: steps}); s.Validate() != nil || want == len(long.states) {
				continue
			}
			got := trainSerially(t, s)
			short := &journal{states: slices.Clone(long.states[:want+1]), rows: slices.Clone(long.rows[:want])}
			requireEqual(t, "a run of steps", got, short)

			s.Length = config.Length{Steps: long.states[len(long.states)-1].Steps}
			r := newRun(t, s, newSerial(t, s), got)
			if err := r.Resume(got.states[want], 2); err != nil {
				t.Fatal(err)
			}
			if err := r.Train(t.Context()); err != nil {
				t.Fatal(err)
			}
			requireEqual(t, "raised", got, long)
		}
	}
}
