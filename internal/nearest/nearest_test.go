package nearest

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	candidates := []string{"batch", "seed", "gamma", "gae_lambda", "learning_rate"}
	for _, c := range []struct {
		name, closest string
		edits         int
	}{
		{"batch", "batch", 0},
		{"bacth", "batch", 1},
		{"Sead", "seed", 1},
		{"lambda", "gae_lambda", 1},
		{"learning-rate", "learning_rate", 1},
		{"", "seed", 4},
		{strings.Repeat("x", 1<<20), "batch", 100},
	} {
		if closest, edits := Name(c.name, candidates); closest != c.closest || edits != c.edits {
			t.Errorf("Name(%.20q) = %q, %d; want %q, %d", c.name, closest, edits, c.closest, c.edits)
		}
	}
	if closest, _ := Name("batch", nil); closest != "" {
		t.Errorf("Name without candidates = %q", closest)
	}
}

// slowDistance computes the distance by its definition, recursively over the last letters.
func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	m, n := len(a)-1, len(b)-1
	substitution := slowDistance(a[:m], b[:n])
	if a[m] != b[n] {
		substitution++
	}
	d := min(substitution, slowDistance(a[:m], b)+1, slowDistance(a, b[:n])+1)
	if m > 0 && n > 0 && a[m] == b[n-1] && a[m-1] == b[n] {
		d = min(d, slowDistance(a[:m-1], b[:n-1])+1)
	}
	return d
}

func TestDistanceAgreesWithDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		letters := make([]byte, rng.IntN(6))
		for i := range letters {
			letters[i] = "abc"[rng.IntN(3)]
		}
		return string(letters)
	}
	for range 500 {
		a, b := word(), word()
		if got, want := distance(a, b), slowDistance(a, b); got != want {
			t.Fatalf("distance(%q, %q) = %d, want %d", a, b, got, want)
		}
	}
}

func TestList(t *testing.T) {
	for want, names := range map[string][]string{
		"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"},
	} {
		if got := List(names); got != want {
			t.Errorf("List(%q) = %q, want %q", names, got, want)
		}
	}
}
