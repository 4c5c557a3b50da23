package study

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The page's numbers on a golden batch at the paper's noise: the plain integral of a truncated
// kernel is far from the exact gradient, the completed one close.
func TestIntegrals(t *testing.T) {
	out := filepath.Join(t.TempDir(), "integrals")
	mustStudy(t, "integrals", "--out", out, "--batch", "../../estimators/testdata/swimmer_returns.npz", "--noises", "1e-4", "--ranks", "10")
	all := rows(t, out, "cosines.csv")
	for _, c := range []struct {
		state, integral string
		low, high       float64
	}{{"1", "plain", -1, 0.5}, {"1", "completed", 0.99, 1}, {"0", "plain", -1, 0.5}, {"0", "completed", 0.999, 1 + 1e-12}} {
		found := false
		for _, row := range all {
			if row[1] == c.state && row[3] == c.integral && row[4] == "10" {
				x, err := strconv.ParseFloat(row[5], 64)
				if found = true; err != nil || x < c.low || x > c.high {
					t.Errorf("c1 %s, %s: cosine %s, want between %g and %g", c.state, c.integral, row[5], c.low, c.high)
				}
			}
		}
		if !found {
			t.Errorf("c1 %s, %s is not in %v", c.state, c.integral, all)
		}
	}
	contains(t, read(t, out, "README.md"), "## swimmer_returns", "300 samples")
}

func TestIntegralsRefusals(t *testing.T) {
	for want, arguments := range map[string][]string{
		"--batch or --run":     {},
		"want positive":        {"--batch", "x.npz", "--noises", "0"},
		"--ranks: give some":   {"--batch", "x.npz", "--ranks", "10,0"},
		"no such file":         {"--batch", "absent.npz"},
		"no run's directory":   {"--run", t.TempDir()},
		"--out: say which dir": {"--out", "", "--batch", "x.npz"},
	} {
		err := study(t, append([]string{"integrals", "--out", filepath.Join(t.TempDir(), "out")}, arguments...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error that says %q", arguments, err, want)
		}
	}
}
