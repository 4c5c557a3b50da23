package presets

import (
	"errors"
	"testing"

	"github.com/dbqpg/dbqpg/learner/config"
	"github.com/dbqpg/dbqpg/sim"
)

func TestEveryTaskHasValidPresets(t *testing.T) {
	for _, spec := range sim.Tasks() {
		if _, ok := tasks[spec.Name]; !ok {
			t.Errorf("%s has no preset", spec.Name)
		}
		for _, algorithm := range []config.Algorithm{config.Vanilla, config.NPG, config.TRPO} {
			for _, estimator := range []config.Estimator{config.MonteCarlo, config.DBQPG, config.UAPG, config.UBAC} {
				if estimator == config.UBAC && algorithm != config.Vanilla {
					continue
				}
				s, err := For(spec.Name, algorithm, estimator, config.Code)
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
func TestFor(t *testing.T) {
	for _, c := range []struct {
		task      string
		algorithm config.Algorithm
		estimator config.Estimator
		targets   config.Targets
		rank      int
		rate      float64
	}{
		{"Swimmer-v2", config.NPG, config.UAPG, config.Returns, 30, 2.1e-3},
		{"Swimmer-v2", config.Vanilla, config.MonteCarlo, config.Returns, 25, 7e-4},
		{"HalfCheetah-v2", config.Vanilla, config.DBQPG, config.GAE, 60, 2.31e-3},
		{"HalfCheetah-v2", config.TRPO, config.DBQPG, config.GAE, 90, 0},
		{"HumanoidStandup-v2", config.NPG, config.UAPG, config.GAE, 140, 2.1e-3},
		{"HumanoidStandup-v2", config.NPG, config.MonteCarlo, config.GAE, 140, 2.31e-4},
		{"HumanoidStandup-v2", config.Vanilla, config.MonteCarlo, config.GAE, 50, 7e-4},
	} {
		s, err := For(c.task, c.algorithm, c.estimator, config.Paper)
		if err != nil {
			t.Fatal(err)
		}
		if s.Targets != c.targets || s.Rank != c.rank || s.LearningRate != c.rate {
			t.Errorf("%s: targets %s, rank %d, learning rate %v; want %s, %d, %v", s.Name(), s.Targets, s.Rank, s.LearningRate, c.targets, c.rank, c.rate)
		}
		if s.Env != c.task || s.Algorithm != c.algorithm || s.Estimator != c.estimator || s.Preset != config.Paper {
			t.Errorf("settings of %s %s", s.Name(), s.Preset)
		}
		if s.Batch != 15000 || s.Gamma != 0.995 || s.GAELambda != 0.97 || s.C2 != 5e-5 || s.Epsilon != 3 || s.Damping != 0.1 {
			t.Errorf("common settings: %+v", s)
		}
	}
}

func TestForUnknownTask(t *testing.T) {
	_, err := For("Swimer-v2", config.NPG, config.UAPG, config.Code)
	var unknown *sim.UnknownTaskError
	if !errors.As(err, &unknown) || unknown.Nearest != "Swimmer-v2" {
		t.Errorf("error %v, want sim's with the nearest name", err)
	}
}

// What For returns must be free to be changed.
func TestForSharesNothing(t *testing.T) {
	first, _ := For("Ant-v2", config.NPG, config.UAPG, config.Code)
	first.Hidden[0] = 1
	if second, _ := For("Ant-v2", config.NPG, config.UAPG, config.Code); second.Hidden[0] != 64 {
		t.Errorf("hidden layers of the next settings are %v", second.Hidden)
	}
}
