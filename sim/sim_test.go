package sim

import (
	"errors"
	"reflect"
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
	if len(Tasks()) != 7 {
		t.Errorf("%d tasks, want 7", len(Tasks()))
	}
}

func TestUnknownTaskNamesNearest(t *testing.T) {
	for name, want := range map[string]string{
		"Swimer-v2":                "Swimmer-v2",
		"swimmer":                  "Swimmer-v2",
		"Humanoid-v3":              "Humanoid-v2",
		"humanoid-standup":         "HumanoidStandup-v2",
		"walker":                   "Walker2d-v2",
		"halfcheetah-v2":           "HalfCheetah-v2",
		"ant":                      "Ant-v2",
		"Hoper":                    "Hopper-v2",
		strings.Repeat("x", 1<<20): "Ant-v2",
	} {
		_, err := Lookup(name)
		var unknown *UnknownTaskError
		if !errors.As(err, &unknown) || unknown.Nearest != want {
			t.Errorf("%.40s: error %.200v, want nearest %s", name, err, want)
		}
	}
}
