package train_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/runs"
)

func inSegments(t *testing.T, streams, steps int) *config.Settings {
	s := settings(t, "Hopper-v5", config.TRPO, config.UAPG)
	s.Targets, s.Segment, s.Batch = config.GAE, steps, streams*steps
	return s
}

// The targets of an episode that the next segment continues bootstrap from the critic's value of its last observation,
// whatever --bootstrap says of time limits; those of one that the task ended never do.
func TestTargetsAtTheEndOfSegments(t *testing.T) {
	s := inSegments(t, 16, 15)
	s.Iterations = 1
	for _, bootstrap := range []bool{false, true} {
		s.Bootstrap = bootstrap
		r := newRun(t, s, newSerial(t, s), new(journal))
		r.Start(1)
		if err := r.Train(t.Context()); err != nil { // so that the critic's values are not all alike
			t.Fatal(err)
		}
		batch, err := newSerial(t, s).Collect(t.Context(), collect.Order{Policy: r.Policy(9), Steps: 100})
		if err != nil {
			t.Fatal(err)
		}
		episodes := batch.Episodes[:3]
		episodes[0].Terminated, episodes[1].Terminated, episodes[2].Terminated = true, false, false
		episodes[2].GoesOn = true // and the second ended by its time limit

		scope := compute.NewScope(r.Backend)
		defer scope.Release()
		value := func(observations []float32) []float64 {
			o := r.Shape.Observation
			x := make([]float64, len(observations))
			r.Normalizer().Apply(x, observations)
			return r.Critic.Evaluate(scope, scope.FromSlice(len(x)/o, o, x)).Values()
		}
		var want []float64
		for i, e := range episodes {
			values, advantages := value(e.Observations), make([]float64, e.Steps())
			next, sum := 0.0, 0.0
			if i == 2 || i == 1 && bootstrap {
				next = value(e.FinalObservation)[0]
			}
			for j := e.Steps() - 1; j >= 0; j-- {
				sum = e.Rewards[j] + s.Gamma*next - values[j] + s.Gamma*s.GAELambda*sum
				next, advantages[j] = values[j], sum
			}
			want = append(want, advantages...)
		}
		critic.Standardize(want)
		l := *r.Learner
		l.Quadrature, l.Correction, l.Rank = nil, nil, 0
		for i, got := range compute.ToSlice(r.Backend, estimate(t, r, l, episodes).At.Targets) {
			if math.Abs(got-want[i]) > 1e-10 {
				t.Fatalf("bootstrap %v: target %d is %v, want %v", bootstrap, i, got, want[i])
			}
		}
	}
}

// Rows describe the episodes that ended, with the steps of all their segments, but not those that began as if they had
// been played for a while; without any they are empty.
func TestRowsOfSegments(t *testing.T) {
	s := inSegments(t, 50, 5)
	s.Iterations = 12
	j := trainSerially(t, s)
	ended, rows := uint64(0), 0
	for i, state := range j.states {
		if ended > state.Episodes {
			t.Errorf("%d episodes after %d iterations, %d before", state.Episodes, i, ended)
		}
		if i > 0 {
			row := j.rows[i-1]
			if row.Episodes != state.Episodes || row.Steps != state.Steps || row.Steps != uint64(250*(i+1)) {
				t.Errorf("row %d: %d steps and %d episodes; the state has %d and %d", i-1, row.Steps, row.Episodes,
					state.Steps, state.Episodes)
			}
			if none := row.Episodes == ended; none && !math.IsNaN(row.ReturnMean) ||
				math.IsNaN(row.ReturnMean) != math.IsNaN(row.LengthMean) {
				t.Errorf("row %d: %d episodes ended, with a return of %v and a length of %v", i-1, row.Episodes-ended,
					row.ReturnMean, row.LengthMean)
			}
			if row.LengthMean > 5 { // longer than a segment
				rows++
			}
		}
		ended = state.Episodes
	}
	if rows == 0 || ended == 0 {
		t.Errorf("%d episodes ended, %d rows with such of several segments: the test wants both", ended, rows)
	}
}

// Streams in a checkpoint that are damaged are an error.
func TestResumeFromDamagedStreams(t *testing.T) {
	s := inSegments(t, 16, 15)
	s.Iterations = 1
	state := trainSerially(t, s).states[1]
	resume := func(streams []float64) error {
		arrays := maps.Clone(state.Arrays)
		arrays["streams"] = streams
		return newRun(t, s, nil, nil).Resume(&runs.State{Counters: state.Counters, Arrays: arrays}, 2)
	}
	streams := state.Arrays["streams"]
	if err := resume(streams); err != nil {
		t.Fatal(err)
	}
	nan := slices.Clone(streams)
	nan[7] = math.NaN()
	for what, damaged := range map[string][]float64{
		"short": streams[1:], "tiny": streams[:16], "empty": {}, "NaN": nan,
	} {
		if err := resume(damaged); err == nil || !strings.Contains(err.Error(), "streams") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
