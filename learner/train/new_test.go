package train_test

import (
	"math"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/train"
)

// A policy begins with the standard deviations of its settings; of 1, it is the paper's to the last bit.
func TestInitialPolicy(t *testing.T) {
	for std, want := range map[config.InitialStd]float64{
		{Scale: 1, Unit: config.ActionsUnit}: 0, {Scale: 0.5}: math.Log(0.5 * 0.4),
	} {
		s := settings(t, "Humanoid-v5", config.NPG, config.MonteCarlo)
		s.InitialStd = std
		task, err := s.Task()
		if err != nil {
			t.Fatal(err)
		}
		shape := policy.Shape{Observation: task.ObservationDim, Action: task.ActionDim, Hidden: s.Hidden}
		expected := shape.Init(streams.New(s.Seed, streams.Policy), nil)
		copy(expected[shape.Network().NumParams():], slices.Repeat([]float64{want}, task.ActionDim))
		requireBits(t, std.String(), train.New(nil, s, task).Params, expected)
	}
}
