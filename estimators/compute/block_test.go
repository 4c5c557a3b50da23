package compute_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
)

// Every step-th row of a view, at the end of its buffer.
func TestEveryRow(t *testing.T) {
	s := compute.NewScope(computetest.Naive())
	defer s.Release()
	x := s.FromSlice(7, 3, []float64{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42, 50, 51, 52, 60, 61, 62})
	for _, c := range []struct {
		rows compute.Block
		step int
		want []float64
	}{
		{x.Col(1), 1, []float64{1, 11, 21, 31, 41, 51, 61}},
		{x.Col(1), 2, []float64{1, 21, 41, 61}},
		{x.Col(2), 3, []float64{2, 32, 62}},
		{x.View(1, 7, 0, 2), 4, []float64{10, 11, 50, 51}},
		{x.RowRange(2, 3), 9, []float64{20, 21, 22}},
		{x.RowRange(2, 2), 2, []float64{}},
	} {
		if got := compute.ToSlice(s.Backend(), c.rows.EveryRow(c.step)); !slices.Equal(got, c.want) {
			t.Errorf("every %d rows of a %s block: %v, want %v", c.step, c.rows.Shape(), got, c.want)
		}
	}
	defer func() {
		if message := fmt.Sprint(recover()); message != "compute: every 0-th row of a 7 × 3 block" {
			t.Errorf("step 0: %s", message)
		}
	}()
	x.EveryRow(0)
}
