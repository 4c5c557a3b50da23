package record

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// A machine without ffmpeg is told what to install, and nothing is left behind. python/tests/test_record.py films.
func TestWithoutEncoder(t *testing.T) {
	t.Setenv("PATH", "")
	shape := policy.Shape{Observation: 8, Action: 2, Hidden: []int{5}}
	c := &runs.Checkpoint{
		State: &runs.State{Arrays: map[string][]float64{
			"policy.params":    shape.Init(rand.New(rand.NewPCG(1, 2)), nil),
			"normalizer.count": {1}, "normalizer.mean": make([]float64, 8), "normalizer.m2": make([]float64, 8),
		}, Networks: map[string][]int{"policy": shape.Network().Sizes}},
		Settings: map[string]string{"env": "Swimmer-v2", "clip": "5"},
	}
	directory := t.TempDir()
	_, err := Record(t.Context(), c, Default, filepath.Join(directory, "film.mp4"))
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "apt install ffmpeg") {
		t.Errorf("without ffmpeg: %v", err)
	}
	c.Settings["task"] = "name: Swimmer-v2"
	if _, err := Record(t.Context(), c, Default, filepath.Join(directory, "film.mp4")); !errors.Is(err,
		ErrUnavailable) {
		t.Errorf("a task of another program: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(directory, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
