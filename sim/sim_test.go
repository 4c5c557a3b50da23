package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, want := range Tasks() {
		got, err := Lookup(want.Name)
		if err != nil || got != want {
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

// slowDistance is the definition, by recursion.
func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	if a[0] == b[0] {
		return slowDistance(a[1:], b[1:])
	}
	return 1 + min(slowDistance(a[1:], b), slowDistance(a, b[1:]), slowDistance(a[1:], b[1:]))
}

func TestEditDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		letters := make([]byte, rng.IntN(7))
		for i := range letters {
			letters[i] = "abc"[rng.IntN(3)]
		}
		return string(letters)
	}
	for range 500 {
		a, b := word(), word()
		if got, want := editDistance(a, b), slowDistance(a, b); got != want {
			t.Errorf("from %q to %q: %d edits, want %d", a, b, got, want)
		}
	}
}
