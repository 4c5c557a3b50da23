package config_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/sim"
)

// Set reads what String writes.
func TestInitialStdRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		std := config.InitialStd{Scale: rapid.Float64().Draw(t, "scale"), Unit: rapid.SampledFrom([]config.StdUnit{
			config.HalfRange, config.HalfOfNorm, config.ActionsUnit}).Draw(t, "unit")}
		var again config.InitialStd
		if err := again.Set(std.String()); err != nil || again != std {
			t.Errorf("%s is read as %+v, %v", std, again, err)
		}
	})
	for text, want := range map[string]config.InitialStd{
		"0.5": {Scale: 0.5}, "1abs": {Scale: 1, Unit: config.ActionsUnit}, "1e-5abs": {1e-5, config.ActionsUnit}, "1.2norm": {1.2, config.HalfOfNorm},
	} {
		var std config.InitialStd
		if err := std.Set(text); err != nil || std != want {
			t.Errorf("%s is read as %+v, %v", text, std, err)
		}
	}
}

// The standard deviation is relative to half of each action's range, where there is one.
func TestInitialStdOf(t *testing.T) {
	humanoid, err := sim.Lookup("Humanoid-v5")
	if err != nil {
		t.Fatal(err)
	}
	inf := math.Inf(1)
	mixed := sim.Spec{ActionDim: 6, Low: []float64{-2, 1, -inf, 0, 3, -inf}, High: []float64{2, 4, inf, inf, 3, 0}}
	for _, c := range []struct {
		std  string
		task sim.Spec
		want []float64
	}{
		{"0.5", humanoid, slices.Repeat([]float64{0.2}, 17)},
		{"1abs", humanoid, slices.Repeat([]float64{1}, 17)},
		{"0.5", mixed, []float64{1, 0.75, 0.5, 0.5, 0.5, 0.5}},
		{"0.5abs", mixed, slices.Repeat([]float64{0.5}, 6)},
		{"2norm", sim.Spec{ActionDim: 4, Low: []float64{-2, 1, -inf, 0}, High: []float64{2, 4, inf, inf}}, []float64{2, 1.5, 1, 1}},
	} {
		var std config.InitialStd
		if err := std.Set(c.std); err != nil {
			t.Fatal(err)
		}
		if got := std.Of(c.task); !slices.Equal(got, c.want) {
			t.Errorf("%s of %s: %v, want %v", c.std, c.task.Name, got, c.want)
		}
	}
}

func TestInitialStdSetting(t *testing.T) {
	const text = "name: Mine\nobservations: 3\nactions: 2\nsteps: 20\ncommand: [mine]\n"
	inDirectory(t, map[string]string{
		"unbounded.yaml": text,
		"discrete.yaml":  text + "choices: [2, 3]\n",
		"bounded.yaml":   text + "low: [-4, -.inf]\nhigh: [4, .inf]\n",
		"huge.yaml":      text + "low: [-1, -3.4e38]\nhigh: [1, 3.4e38]\n",
	})
	for _, c := range []struct{ arguments, want string }{
		{"--task discrete.yaml", "1.2norm []"},
		{"--env Ant-v2 --preset paper", "1abs [1 1 1 1 1 1 1 1]"},
		{"--env Swimmer-v5 --preset paper --initial-std 0.25", "0.25 [0.25 0.25]"},
		{"--task unbounded.yaml --initial-std 3", "3 [3 3]"},
		{"--task bounded.yaml --initial-std 0.5", "0.5 [2 0.5]"},
		{"--task bounded.yaml --initial-std 0.5abs", "0.5abs [0.5 0.5]"},
		{"--task huge.yaml --initial-std 0.5abs", "0.5abs [0.5 0.5]"},
	} {
		settings, _, err := load(c.arguments, "")
		if err != nil {
			t.Errorf("%s: %v", c.arguments, err)
			continue
		}
		task, err := settings.Task()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(settings.InitialStd, " ", settings.InitialStd.Of(task)); got != c.want {
			t.Errorf("%s: %s, want %s", c.arguments, got, c.want)
		}
	}
	for _, c := range []struct{ arguments, want string }{
		{"--env Ant-v2 --initial-std 0", "--initial-std 0: the standard deviation of component 0 of the action would be 0"},
		{"--env Ant-v2 --initial-std=-1", "--initial-std -1: "},
		{"--env Ant-v2 --initial-std NaN", "--initial-std NaN: "},
		{"--env Ant-v2 --initial-std Infabs", "--initial-std +Infabs: "},
		{"--task discrete.yaml --initial-std 1", "the actions of Mine are discrete, without a standard deviation"},
		{"--task discrete.yaml --std-rate 1", "the actions of Mine are discrete, without a standard deviation"},
		{"--env Ant-v2 --initial-std abs", `"abs" is not a number, such as 0.5, with or without norm or abs behind it`},
		{"--env Ant-v2 --initial-std 1rel", `"1rel" is not a number`},
		{"--task huge.yaml --initial-std 0.5", "of component 1 of the action would be 1.7e+38: must be from 1e-30 to 1e+30; 1abs"},
		{"--task unbounded.yaml --initial-std 0", "--initial-std 0: "},
	} {
		_, _, err := load(c.arguments, "")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", c.arguments, err, c.want)
		}
	}
}
