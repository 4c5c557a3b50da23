package gradient

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/npz"
)

// Each wrong array is named, with what it should be.
func TestBadBatches(t *testing.T) {
	good := golden(t, "swimmer_returns")
	with := func(name string, array npz.Array) func(npz.Arrays) {
		return func(a npz.Arrays) { a[name] = array }
	}
	spoiled := func(name string, i int, x float64) func(npz.Arrays) {
		return func(a npz.Arrays) {
			array := a[name]
			array.Floats = append([]float64{}, array.Floats...)
			array.Floats[i] = x
			a[name] = array
		}
	}
	for name, c := range map[string]struct {
		spoil func(npz.Arrays)
		want  string
	}{
		"missing observations": {func(a npz.Arrays) { delete(a, "observations") }, `"observations" is missing`},
		"missing layer":        {func(a npz.Arrays) { delete(a, "policy_w1") }, `"policy_w1" is missing`},
		"missing number":       {func(a npz.Arrays) { delete(a, "gae_lambda") }, `"gae_lambda" is missing`},
		"short actions": {with("actions", npz.Of(make([]float64, 20), 10, 2)),
			`"actions" has shape [10 2], want [300 -1]`},
		"flat observations": {with("observations", npz.Of(make([]float64, 300), 300)),
			`"observations" has shape [300], want [-1 -1]`},
		"empty batch": {with("observations", npz.Of([]float64{}, 0, 8)), `"observations" is empty`},
		"wide layer": {with("policy_w2", npz.Of(make([]float64, 64*65), 64, 65)),
			`"policy_w2" has shape [64 65], want [64 64]`},
		"other features": {with("feature_w3", npz.Of(make([]float64, 480), 48, 10)),
			`"feature_w3" has shape [48 10], want [10 48]`},
		"NaN reward":         {spoiled("rewards", 17, math.NaN()), `"rewards": element 17 (row-major) is NaN`},
		"infinite weight":    {spoiled("policy_w3", 5, math.Inf(-1)), `"policy_w3": element 5 (row-major) is -Inf`},
		"numbers for dones":  {with("dones", npz.Of(make([]float64, 300), 300)), `"dones" holds float64, not bool`},
		"unfinished episode": {with("dones", npz.Of(make([]bool, 300), 300)), `"dones": its last element is false`},
		"negative noise":     {with("noise", npz.Scalar(-0.3)), "noise is -0.3, want a positive number"},
		"fractional rank":    {with("rank", npz.Scalar(2.5)), "rank is 2.5, want a whole number"},
		"discount above 1":   {with("gamma", npz.Scalar(1.5)), "gamma is 1.5, want a number between 0 and 1"},
		"no damping":         {with("damping", npz.Scalar(0.0)), "damping is 0, want a number"},
		"queries by halves": {with("query_observations", npz.Of(make([]float64, 24), 3, 8)),
			`"query_actions" is missing`},
		"the other half": {with("query_actions", npz.Of(make([]float64, 6), 3, 2)),
			`"query_observations" is missing`},
		"other observations": {with("query_observations", npz.Of(make([]float64, 21), 3, 7)),
			`"query_observations" has shape [3 7], want [-1 8]`},
		"rank above n": {with("rank", npz.Scalar(301.0)),
			"rank 301 of the Fisher kernel, with 300 samples and 4868 policy parameters"},
		"rank 0": {with("rank", npz.Scalar(0.0)), "rank 0 of the Fisher kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			arrays := maps.Clone(good)
			c.spoil(arrays)
			batch, err := Parse(arrays)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v and %v, want an error that says %q", batch != nil, err, c.want)
			}
		})
	}
}

// Numbers that pass the checks one by one but lead nowhere are errors too, with their
// type.
func TestNumericalOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(npz.Arrays)
		want  any
	}{
		"dead features": {func(a npz.Arrays) {
			a["feature_w3"] = npz.Of(make([]float64, 480), 10, 48)
			a["feature_b3"] = npz.Of(make([]float64, 10), 10)
		}, new(*statekernel.ConstantFeaturesError)},
		"vanishing noise": {func(a npz.Arrays) { a["noise"] = npz.Scalar(1e-30) },
			new(*cholesky.NotPositiveDefiniteError)},
		"vast actions": {func(a npz.Arrays) {
			vast := make([]float64, 600)
			for i := range vast {
				vast[i] = 1e200
			}
			a["actions"] = npz.Of(vast, 300, 2)
		}, new(*linop.NotFiniteError)},
	} {
		t.Run(name, func(t *testing.T) {
			arrays := golden(t, "swimmer_returns")
			c.spoil(arrays)
			batch, err := Parse(arrays)
			if err != nil {
				t.Fatal(err)
			}
			if answers, err := Compute(cpu.New(2), batch, Options{}); answers != nil || !errors.As(err, c.want) {
				t.Errorf("got %v, want a %T", err, c.want)
			}
		})
	}
}

// Whatever one array of a batch is replaced by, the batch is refused or answered.
func TestAnyArrayReplaced(t *testing.T) {
	good := golden(t, "swimmer_returns")
	for _, name := range good.Names() {
		if strings.HasPrefix(name, "expect_") {
			continue
		}
		reversed := good[name]
		reversed.Shape = slices.Clone(reversed.Shape)
		slices.Reverse(reversed.Shape)
		deeper := good[name]
		deeper.Shape = append(slices.Clone(deeper.Shape), 1)
		for kind, array := range map[string]npz.Array{
			"empty": npz.Of([]float64{}, 0), "empty matrix": npz.Of([]float64{}, 0, 8),
			"scalar": npz.Scalar(1.0), "zero": npz.Scalar(0.0), "negative": npz.Scalar(-7.0), "bool": npz.Scalar(true),
			"vector": npz.Of([]float64{1, 2, 3}, 3), "NaN": npz.Scalar(math.NaN()), "reversed": reversed,
			"deeper": deeper,
		} {
			arrays := maps.Clone(good)
			arrays[name] = array
			batch, err := Parse(arrays)
			if (batch == nil) == (err == nil) {
				t.Errorf("%s replaced by %s: %v, %v", name, kind, batch != nil, err)
			}
		}
	}
}

// A layer that a file cannot hold is an error, not an allocation.
func TestHugeLayer(t *testing.T) {
	arrays := golden(t, "swimmer_returns")
	arrays["policy_w1"] = npz.Array{Shape: []int{1 << 40, 8}}
	if _, err := Parse(arrays); err == nil {
		t.Error("a layer of 2^40 units passes")
	}
}

// command runs `learner gradient` and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "mine.npz")
	printed, err := command(t, "--batch", "../../estimators/testdata/hopper_gae.npz", "--out", out, "--solver", "cg",
		"--fisher", "analytic")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(printed, "uapg_natural_projected_policy") || !strings.Contains(printed, "wrote ") {
		t.Errorf("it prints\n%s", printed)
	}
	answers, err := npz.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Compare(answers, golden(t, "hopper_gae")) {
		if d.Name == "alpha" && d.Relative > 1e-4 {
			t.Errorf("alpha in the file is %.2g off", d.Relative)
		}
	}
}

func TestCommandRefusals(t *testing.T) {
	dir := t.TempDir()
	batch, out := "../../estimators/testdata/hopper_gae.npz", filepath.Join(dir, "mine.npz")
	garbage := filepath.Join(dir, "garbage.npz")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("PK\x03\x04"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
		is   error
	}{
		"no batch": {[]string{"--out", out}, `"batch" not set`, nil},
		"absent batch": {[]string{"--batch", filepath.Join(dir, "absent.npz"), "--out", out}, "absent.npz",
			fs.ErrNotExist},
		"garbage": {[]string{"--batch", garbage, "--out", out}, "garbage.npz", npz.ErrFormat},
		"unknown solver": {[]string{"--batch", batch, "--out", out, "--solver", "lu"}, `"lu" is not direct or cg`,
			nil},
		"unknown fisher": {[]string{"--batch", batch, "--out", out, "--fisher", "exact"},
			`"exact" is not empirical or analytic`, nil},
		"exact kernel": {[]string{"--batch", batch, "--out", out, "--fisher-kernel", "exact"},
			"--fisher-kernel exact: it is known only through its products and has no closed form; add --solver cg",
			nil},
		"no directory": {[]string{"--batch", batch, "--out", filepath.Join(dir, "no", "mine.npz")}, "mine.npz",
			fs.ErrNotExist},
		"onto itself": {[]string{"--batch", garbage, "--out", garbage}, "is the batch itself", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := command(t, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}
