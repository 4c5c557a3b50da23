package config

import (
	"errors"
	"testing"

	"github.com/dbqpg/dbqpg/sim"
)

func TestEveryTaskHasValidPresets(t *testing.T) {
	for _, spec := range sim.Tasks() {
		if _, ok := tasks[spec.Name]; !ok {
			t.Errorf("%s has no preset", spec.Name)
		}
		for _, algorithm := range []Algorithm{Vanilla, NPG, TRPO} {
			for _, estimator := range []Estimator{MonteCarlo, DBQPG, UAPG, UBAC} {
				if estimator == UBAC && algorithm != Vanilla {
					continue
				}
				s, err := ForTask(spec.Name, algorithm, estimator, Code)
				if err != nil {
					t.Fatal(err)
				}
				s.RunDir = "somewhere"
				if err := s.Validate(); err != nil {
					t.Errorf("%s: %v", s.Name(), err)
				}
			}
		}
	}
	if len(tasks) != len(sim.Tasks()) {
		t.Errorf("%d presets for %d tasks", len(tasks), len(sim.Tasks()))
	}
}

// The values most easily mixed up, against the paper and helper_config.json.
func TestForTask(t *testing.T) {
	for _, c := range []struct {
		task      string
		algorithm Algorithm
		estimator Estimator
		targets   Targets
		rank      int
		rate      float64
	}{
		{"Swimmer-v2", NPG, UAPG, Returns, 30, 2.1e-3},
		{"Swimmer-v2", Vanilla, MonteCarlo, Returns, 25, 7e-4},
		{"HalfCheetah-v2", Vanilla, DBQPG, GAE, 60, 2.31e-3},
		{"HalfCheetah-v2", TRPO, DBQPG, GAE, 90, 0},
		{"HumanoidStandup-v2", NPG, UAPG, GAE, 140, 2.1e-3},
		{"HumanoidStandup-v2", NPG, MonteCarlo, GAE, 140, 2.31e-4},
		{"HumanoidStandup-v2", Vanilla, MonteCarlo, GAE, 50, 7e-4},
	} {
		s, err := ForTask(c.task, c.algorithm, c.estimator, Paper)
		if err != nil {
			t.Fatal(err)
		}
		if s.Targets != c.targets || s.Rank != c.rank || s.LearningRate != c.rate {
			t.Errorf("%s: targets %s, rank %d, learning rate %v; want %s, %d, %v", s.Name(), s.Targets, s.Rank, s.LearningRate, c.targets, c.rank, c.rate)
		}
		if s.Env != c.task || s.Algorithm != c.algorithm || s.Estimator != c.estimator || s.Preset != Paper {
			t.Errorf("settings of %s %s", s.Name(), s.Preset)
		}
		if s.Batch != 15000 || s.Gamma != 0.995 || s.GAELambda != 0.97 || s.C2 != 5e-5 || s.Epsilon != 3 || s.Damping != 0.1 {
			t.Errorf("common settings: %+v", s)
		}
	}
}

func TestForUnknownTask(t *testing.T) {
	_, err := ForTask("Swimer-v2", NPG, UAPG, Code)
	var unknown *sim.UnknownTaskError
	if !errors.As(err, &unknown) || unknown.Nearest != "Swimmer-v2" {
		t.Errorf("error %v, want sim's with the nearest name", err)
	}
}

// What ForTask returns must be free to be changed.
func TestForTaskSharesNothing(t *testing.T) {
	first, _ := ForTask("Ant-v2", NPG, UAPG, Code)
	first.Hidden[0] = 1
	if second, _ := ForTask("Ant-v2", NPG, UAPG, Code); second.Hidden[0] != 64 {
		t.Errorf("hidden layers of the next settings are %v", second.Hidden)
	}
}
