package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/sim"
)

func TestEveryTaskHasValidPresets(t *testing.T) {
	families := map[string]bool{}
	for _, spec := range sim.Tasks() {
		family, _ := sim.SplitName(spec.Name)
		families[family] = true
		for _, algorithm := range []Algorithm{Vanilla, NPG, TRPO} {
			for _, estimator := range []Estimator{MonteCarlo, DBQPG, UAPG, UBAC} {
				if estimator == UBAC && algorithm != Vanilla {
					continue
				}
				s, err := ForTask(spec.Name, algorithm, estimator, Paper)
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
	known := map[string]bool{}
	for _, row := range append(rows(new(Settings)), rows(new(Worker))...) {
		known[row.Name] = true
	}
	for _, l := range layers() {
		for name := range l.Settings {
			if !known[name] {
				t.Errorf("presets.yaml has %s, and there is no such setting", name)
			}
		}
		for name := range l.When {
			if _, ok := new(Hyperparameters).facts()[name]; !ok && name != "program" {
				t.Errorf("presets.yaml depends on %s, which is unknown", name)
			}
		}
		for _, family := range strings.Fields(l.When["family"]) {
			if !families[family] {
				t.Errorf("there is a preset of %s, and no such task", family)
			}
		}
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
		{"HumanoidStandup-v5", NPG, MonteCarlo, GAE, 140, 2.31e-4},
		{"HalfCheetah-v4", Vanilla, DBQPG, GAE, 60, 2.31e-3},
		{"Reacher-v5", NPG, UAPG, GAE, 50, 2.1e-3}, // a task that the authors did not try
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

// The authors' four settings are a variant of the preset paper.
func TestAuthors(t *testing.T) {
	entries, err := readYAML("../../docs/results/authors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := forTask("Swimmer-v2", NPG, UAPG, Paper)
	if s.Noise != 1e-4 || s.FisherVariance != 1 || !s.Completion || s.Fisher != Empirical {
		t.Errorf("paper: %+v", s)
	}
	for _, e := range entries {
		if err := s.Set(e.name, e.text); err != nil {
			t.Error(err)
		}
	}
	if len(entries) != 4 || s.Noise != Learned || s.FisherVariance != Learned || s.Completion || s.Fisher != Analytic {
		t.Errorf("authors: %+v", s)
	}
}

func TestUnknownTask(t *testing.T) {
	for name, want := range map[string]string{
		"Swimer-v2":                "Swimmer-v2",
		"swimmer":                  "Swimmer-v5",
		"Humanoid-v3":              "Humanoid-v5",
		"Humanoid":                 "Humanoid-v5",
		"Hopper-v45":               "Hopper-v5",
		"pendulum-v5":              "InvertedPendulum-v5",
		"humanoid-standup":         "HumanoidStandup-v5",
		"walker":                   "Walker2d-v5",
		"halfcheetah-v2":           "HalfCheetah-v2",
		"ant":                      "Ant-v5",
		"Hoper":                    "Hopper-v5",
		strings.Repeat("x", 1<<20): "Walker2d-v5",
	} {
		_, err := ForTask(name, NPG, UAPG, "")
		if !errors.Is(err, sim.ErrUnknownTask) || !strings.HasSuffix(err.Error(), "did you mean "+want+"?") {
			t.Errorf("%.40s: error %.200v, want nearest %s", name, err, want)
		}
	}
}

// The preset best is the same for all tasks, apart from Swimmer's discount, and estimators, and valid for each.
func TestBestIsTheSameForAllTasks(t *testing.T) {
	first, err := ForTask("Swimmer-v2", TRPO, UAPG, Best)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range sim.Tasks() {
		for _, estimator := range []Estimator{MonteCarlo, UAPG} {
			s, err := ForTask(task.Name, TRPO, estimator, Best)
			if err != nil {
				t.Fatal(err)
			}
			s.RunDir = "unused"
			if err := s.Validate(); err != nil {
				t.Errorf("%s, %s: %v", task.Name, estimator, err)
			}
			s.RunDir, s.Env, s.Estimator = first.RunDir, first.Env, first.Estimator
			s.LearningRate = first.LearningRate // which trpo does not use
			gamma, lambda := 0.995, 0.95
			if strings.HasPrefix(task.Name, "Swimmer-") {
				gamma, lambda = 0.9999, 0.98
			}
			if s.Gamma != gamma || s.GAELambda != lambda {
				t.Errorf("%s, %s: gamma %g and lambda %g, want %g and %g", task.Name, estimator, s.Gamma, s.GAELambda, gamma, lambda)
			}
			s.Gamma, s.GAELambda = first.Gamma, first.GAELambda
			if !reflect.DeepEqual(s, first) {
				t.Errorf("%s, %s:\n%+v, and of Swimmer-v2\n%+v", task.Name, estimator, s, first)
			}
		}
	}
}

// Callers may modify the result of ForTask.
func TestForTaskSharesNothing(t *testing.T) {
	first, _ := ForTask("Ant-v2", NPG, UAPG, Paper)
	first.Hidden[0] = 1
	if second, _ := ForTask("Ant-v2", NPG, UAPG, Paper); second.Hidden[0] != 64 {
		t.Errorf("hidden layers of the next settings are %v", second.Hidden)
	}
}
