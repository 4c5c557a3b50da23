package export

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// exampleCheckpoint is a checkpoint of a Swimmer-v2 policy.
func exampleCheckpoint() *runs.Checkpoint {
	shape := policy.Shape{Observation: 8, Action: 2, Hidden: []int{5}}
	arrays := map[string][]float64{
		"policy.params":    shape.Init(rand.New(rand.NewPCG(1, 2)), nil),
		"normalizer.count": {100}, "normalizer.mean": make([]float64, 8),
		"normalizer.m2": slices.Repeat([]float64{99}, 8),
		"action.low":    {-0.5, math.Inf(-1)}, "action.high": {0.5, 2},
	}
	return &runs.Checkpoint{
		Location: "somewhere/best.safetensors",
		State: &runs.State{Counters: runs.Counters{Iteration: 7}, Arrays: arrays,
			Networks: map[string][]int{"policy": shape.Network().Sizes}},
		Settings: map[string]string{"env": "Swimmer-v2", "clip": "5", "algorithm": "npg", "estimator": "uapg",
			"seed": "1"},
	}
}

func mustFiles(t *testing.T, c *runs.Checkpoint) map[string][]byte {
	t.Helper()
	p, err := newPolicy(c)
	if err != nil {
		t.Fatal(err)
	}
	all, err := files(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Equal checkpoints give equal bytes; a policy that was not evaluated has a card without results that is valid YAML.
func TestFiles(t *testing.T) {
	all := mustFiles(t, exampleCheckpoint())
	want := []string{cardName, configName, examplesName, onnxName, tensorsName}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	for name, again := range mustFiles(t, exampleCheckpoint()) {
		if !bytes.Equal(again, all[name]) {
			t.Errorf("%s differs when it is made again", name)
		}
	}
	var card struct {
		Models []struct {
			Name    string
			Results []any
		} `yaml:"model-index"`
	}
	front := strings.Split(string(all[cardName]), "---\n")[1]
	if err := yaml.Unmarshal([]byte(front), &card); err != nil || len(card.Models) != 1 ||
		card.Models[0].Name != "NPG-UAPG" || len(card.Models[0].Results) != 0 {
		t.Errorf("the card's metadata are %+v, %v:\n%s", card, err, front)
	}
	if !bytes.Contains(all[configName], []byte("null")) {
		t.Error("an action without a lower bound is not null in config.json")
	}
}

func TestBounds(t *testing.T) {
	for name, damage := range map[string]func(*runs.Checkpoint){
		"one bound":         func(c *runs.Checkpoint) { delete(c.State.Arrays, "action.low") },
		"too many":          func(c *runs.Checkpoint) { c.State.Arrays["action.high"] = []float64{1, 1, 1} },
		"low above high":    func(c *runs.Checkpoint) { c.State.Arrays["action.low"] = []float64{3, 3} },
		"not a number":      func(c *runs.Checkpoint) { c.State.Arrays["action.low"] = []float64{math.NaN(), 0} },
		"a policy of chaff": func(c *runs.Checkpoint) { c.State.Arrays["policy.params"] = []float64{1} },
	} {
		c := exampleCheckpoint()
		damage(c)
		if _, err := newPolicy(c); err == nil || !strings.Contains(err.Error(), c.Location) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWriteKeepsWhatIsThere(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "a", "b")
	if err := write(directory, map[string][]byte{"x": []byte("1"), "y": nil}, false); err != nil {
		t.Fatal(err)
	}
	if err := write(directory, map[string][]byte{"w": nil, "x": []byte("2")}, false); err == nil ||
		!strings.Contains(err.Error(), "--force") {
		t.Errorf("a file that is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(directory, "w")); err == nil {
		t.Error("a file was written before the refusal")
	}
	if err := write(directory, map[string][]byte{"x": []byte("2")}, true); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(directory, "x")); string(data) != "2" {
		t.Errorf("x is %q, %v", data, err)
	}
}
