package study

import (
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
)

// A published table is as long as the run is to be, in iterations or in steps, or not complete.
func TestRowsOfATrial(t *testing.T) {
	steps := []float64{30, 50, 75, 90}
	for _, c := range []struct {
		length   config.Length
		rows     int
		complete bool
	}{
		{config.Length{Iterations: 3}, 3, true},
		{config.Length{Iterations: 4}, 4, true},
		{config.Length{Iterations: 5}, 4, false},
		{config.Length{Steps: 50}, 2, true},
		{config.Length{Steps: 51}, 3, true},
		{config.Length{Steps: 91}, 4, false},
	} {
		s := &config.Settings{Length: c.length}
		if rows, complete := (trial{settings: s}).rows(steps); rows != c.rows || complete != c.complete {
			t.Errorf("%+v: %d rows, complete: %v", c.length, rows, complete)
		}
	}
}
