package config

import (
	"strings"
	"testing"
)

// Whether a run is complete depends on the one unit that its length is in.
func TestLength(t *testing.T) {
	iterations, steps := Length{Iterations: 500}, Length{Steps: 1_000_000}
	for _, c := range []struct {
		length            Length
		iterations, steps uint64
		reached           bool
		longer            string
	}{
		{iterations, 499, 2_000_000, false, "--iterations 1000"},
		{iterations, 500, 2_000_000, true, "--iterations 1000"},
		{iterations, 1000, 2_000_000, true, "--iterations 2000"}, // shorter than the run already is
		{steps, 1 << 20, 999_999, false, "--steps 2000000"},
		{steps, 3, 1_000_000, true, "--steps 2000000"},
		{steps, 3, 1_001_276, true, "--steps 2000000"},
		{steps, 3, 2_500_000, true, "--steps 5000000"},
	} {
		if got := c.length.Reached(c.iterations, c.steps); got != c.reached {
			t.Errorf("%+v reached by %d iterations, %d steps: %v", c.length, c.iterations, c.steps, got)
		}
		if got := c.length.Longer(c.iterations, c.steps); got != c.longer {
			t.Errorf("%+v after %d iterations, %d steps: %s, want %s", c.length, c.iterations, c.steps, got, c.longer)
		}
	}
}

// A run in segments can be given any number of further steps that are at least a batch.
func TestCheckRest(t *testing.T) {
	s := forTask("Hopper-v5", TRPO, UAPG, Best)
	s.Batch, s.Segment = 2048, 32
	for steps, want := range map[uint64]string{
		999_999: "", 1_000_000: "", 1_000_001: "the run has 1000000, and its next batch 2048 more; give 1002048 or more", 1_002_047: "give 1002048", 1_002_048: "",
	} {
		s.Steps = steps
		if err := s.CheckRest(1_000_000); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d steps: %v, want %q", steps, err, want)
		}
	}
	s.Segment, s.Steps = 0, 1_000_001
	if err := s.CheckRest(1_000_000); err != nil {
		t.Errorf("whole episodes: %v", err)
	}
}
