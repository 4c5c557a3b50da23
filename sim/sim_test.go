package sim

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, want := range Tasks() {
		got, err := Lookup(want.Name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", want.Name, got, err)
		}
	}
	if !slices.IsSortedFunc(Tasks(), func(a, b Spec) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("tasks are not sorted by name")
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string]struct {
		family  string
		version int
	}{"Ant-v5": {"Ant", 5}, "my-very-own-v12": {"my-very-own", 12}, "pole": {"pole", 0}, "my-very-own": {"my-very-own", 0}, "": {"", 0}} {
		if family, version := SplitName(name); family != want.family || version != want.version {
			t.Errorf("%q: %q, %d", name, family, version)
		}
	}
}

func TestUnknownTaskNamesNearest(t *testing.T) {
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
		_, err := Lookup(name)
		var unknown *UnknownTaskError
		if !errors.As(err, &unknown) || unknown.Nearest != want {
			t.Errorf("%.40s: error %.200v, want nearest %s", name, err, want)
		}
	}
}
