package sweep

import (
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
)

const whole = `
name: swimmer
tasks: [Swimmer-v2, Hopper-v2]
algorithms: npg
estimators: [mc, uapg]
seeds: [1-3, 7]
overrides:
  iterations: 300
  rank: [20, 30]
  hidden: ["32,32"]
  gae-lambda: 0.9
`

func TestParse(t *testing.T) {
	spec, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	runs := spec.Expand()
	if len(runs) != 2*2*4*2 {
		t.Fatalf("%d runs", len(runs))
	}
	last := runs[len(runs)-1]
	if want := "swimmer/Hopper-v2/npg-uapg-v2-s7"; last.Name != want {
		t.Errorf("the last run is %s, want %s", last.Name, want)
	}
	s, err := Settings(&last)
	if err != nil {
		t.Fatal(err)
	}
	if s.Env != "Hopper-v2" || s.Seed != 7 || s.Iterations != 300 || s.Rank != 30 || s.Hidden[0] != 32 || s.GAELambda != 0.9 || s.Estimator != config.UAPG {
		t.Errorf("settings %+v", s)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	// What is not overridden is the preset's.
	if s.LearningRate != 2.1e-3 || s.Targets != config.Returns {
		t.Errorf("learning rate %v, targets %v", s.LearningRate, s.Targets)
	}
}

// Segments fit a batch here too.
func TestSegments(t *testing.T) {
	spec, err := Parse([]byte("name: x\ntasks: Ant-v5\noverrides: {batch: [3000, 777]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range spec.Expand() {
		if s, err := Settings(&run); err != nil || s.Segment != []int{250, 259}[i] {
			t.Errorf("%+v: segments of %d steps, %v", run, s.Segment, err)
		}
	}
}

// A run's length is what the sweep says of either unit, or else the preset's.
func TestLength(t *testing.T) {
	for overrides, want := range map[string]config.Length{
		"":                            {Steps: 1_000_000},
		"preset: paper":               {Iterations: 1000},
		"steps: 300000":               {Steps: 300_000},
		"iterations: 30":              {Iterations: 30},
		"iterations: 0, steps: 30000": {Steps: 30_000},
	} {
		spec, err := Parse([]byte("name: x\ntasks: Hopper-v5\noverrides: {" + overrides + "}\n"))
		if err != nil {
			t.Errorf("%s: %v", overrides, err)
			continue
		}
		if s, err := Settings(&spec.Expand()[0]); err != nil || s.Length != want {
			t.Errorf("%s: %+v, %v, want %+v", overrides, s.Length, err, want)
		}
	}
}

// A sweep that names no algorithm or estimator has those of its presets, which are its tasks' unless it names some.
func TestDefaults(t *testing.T) {
	for text, want := range map[string]string{
		"tasks: Swimmer-v2":                                                                        "Swimmer-v2/npg-uapg-s1 paper",
		"tasks: Swimmer-v5":                                                                        "Swimmer-v5/trpo-mc-s1 best",
		"tasks: [Swimmer-v5, Hopper-v4]":                                                           "Swimmer-v5/trpo-mc-s1 best",
		"tasks: Swimmer-v2\noverrides: {gamma: 0.9}":                                               "Swimmer-v2/npg-uapg-s1 paper",
		"tasks: Swimmer-v2\noverrides: {preset: best}":                                             "Swimmer-v2/trpo-mc-s1 best",
		"tasks: [Swimmer-v5, Swimmer-v2]\noverrides: {preset: paper}":                              "Swimmer-v5/npg-uapg-s1 paper",
		"tasks: [Swimmer-v5, Swimmer-v2]\nalgorithms: npg\nestimators: uapg":                       "Swimmer-v5/npg-uapg-s1 best",
		"tasks: Swimmer-v2\nalgorithms: npg\nestimators: uapg\noverrides: {preset: [best, paper]}": "Swimmer-v2/npg-uapg-v1-s1 best",
	} {
		spec, err := Parse([]byte("name: x\n" + text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		run := spec.Expand()[0]
		settings, err := Settings(&run)
		if err != nil {
			t.Fatal(err)
		}
		if got := run.Name + " " + string(settings.Preset); got != "x/"+want {
			t.Errorf("%q: %s, want x/%s first", text, got, want)
		}
	}
	if _, err := Parse([]byte("name: x\ntasks: Swimmer-v2\noverrides: {preset: []}\n")); err == nil {
		t.Error("a setting without a value is accepted")
	}
}

// A value that is a list is written as in a configuration file, and several as a list of these.
func TestListsAsValues(t *testing.T) {
	for text, want := range map[string]string{
		"[64,64]":            "64,64",
		"[64]":               "64",
		"64":                 "64",
		`"64,64"`:            "64,64",
		`["64,64", 32]`:      "64,64|32",
		"[[64, 64], [32,8]]": "64,64|32,8",
	} {
		spec, err := Parse([]byte("name: x\ntasks: Swimmer-v2\noverrides: {hidden: " + text + "}\n"))
		if err != nil || strings.Join(spec.Overrides[0].Values, "|") != want {
			t.Errorf("%s: %v, %v, want %s", text, spec, err, want)
		}
	}
}

// What is wrong is said, with the line and what may have been meant.
func TestBadSweeps(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "it needs a name and tasks",
		"- x":                          "it needs a name and tasks",
		"name: x":                      "tasks: 0 values",
		"tasks: Swimmer-v2":            "an experiment's name",
		"name: x\ntask: Swimmer-v2":    "line 2: task is not a field of a sweep; did you mean tasks?",
		"name: x\nname: y":             "name",
		"name: x\ntasks: Swimer-v2":    "did you mean Swimmer-v2?",
		"name: a/b\ntasks: Swimmer-v2": "at least one of letters, digits, - _ and =",
		"name: a b\ntasks: Swimmer-v2": "at least one of letters, digits, - _ and =",
		"name: x\ntasks: {a: b}":       "must be a plain value",
		"name: x\ntasks: Swimmer-v2\nalgorithms: ngp":                                                         "ngp",
		"name: x\ntasks: Swimmer-v2\nseeds: 5-1":                                                              `"5-1" is neither a number nor a range`,
		"name: x\ntasks: Swimmer-v2\nseeds: 0-18446744073709551615":                                           "at most 1000 seeds",
		"name: x\ntasks: Swimmer-v2\nseeds: -1":                                                               "neither",
		"name: x\ntasks: Swimmer-v2\nseeds: [1, 1]":                                                           "1 is given twice",
		"name: x\ntasks: Swimmer-v2\noverrides: 3":                                                            "overrides must be settings",
		"name: x\ntasks: Swimmer-v2\noverrides: {rnak: 3}":                                                    "did you mean rank?",
		"name: x\ntasks: Swimmer-v2\noverrides: {rank: three}":                                                "rank",
		"name: x\ntasks: Swimmer-v2\noverrides: {gamma: 2}":                                                   "--gamma 2",
		"name: x\ntasks: Swimmer-v2\noverrides: {steps: 50000, iterations: 5}":                                "--iterations 5 and --steps 50000: give one or the other",
		"name: x\ntasks: Swimmer-v2\noverrides: {seed: 2}":                                                    "given outside of overrides, as seeds",
		"name: x\ntasks: Swimmer-v2\noverrides: {env: Hopper-v2}":                                             "given outside of overrides, as tasks",
		"name: x\ntasks: Swimmer-v2\noverrides: {nats: x}":                                                    "not a setting of an experiment",
		"name: x\ntasks: Swimmer-v2\noverrides: {rank: []}":                                                   "0 values",
		"name: x\ntasks: Swimmer-v2\nestimators: [ubac]":                                                      "--estimator ubac",
		"name: x\ntasks: Swimmer-v2\noverrides: {preset: papre}":                                              "preset",
		"name: x\ntasks: Swimmer-v2\nseeds: 1-1000\nestimators: [mc, uapg]\noverrides: {rank: [1,2,3,4,5,6]}": "at most 10000",
		"name: x\ntasks: [Swimmer-v2, Hopper-v5]":                                                             "algorithms: paper is for npg and best for trpo; name the algorithms",
		"name: x\ntasks: Swimmer-v2\noverrides: {preset: [best, paper]}":                                      "algorithms: best is for trpo and paper for npg",
		strings.Repeat("#", MaxFile+1):                                                                        "it is larger than",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, "\n") {
			t.Errorf("%.120q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("name: x\ntasks: [&a Swimmer-v2, *a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := Parse(data)
		if err != nil {
			return
		}
		for _, run := range spec.Expand() {
			if s, err := Settings(&run); err != nil || s.Validate() != nil {
				t.Fatalf("%s: %v", run.Name, err)
			}
		}
	})
}
