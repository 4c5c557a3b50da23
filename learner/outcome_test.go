package main_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dbqpg/dbqpg/learner/runs"
)

// example is a run that the tests disturb in many ways.
type example struct {
	name       string
	run        string // its name on the bus
	flags      string
	iterations int
	reference  func() (outcome, error) // of the undisturbed run: one local actor, one core
}

// examples are a task whose episodes all end at the time limit, with batches beyond the exact decomposition's limit,
// and one whose episodes end early, with small batches, advantages and a line search. Their runs evaluate each policy
// or none: one that is stopped after some iterations is compared with a run of as many, whose last policy is always
// evaluated.
var examples = []*example{
	newExample("Swimmer", "Swimmer-v2/npg-uapg-s11_batch=2500",
		"--env Swimmer-v2 --batch 2500 --seed 11 --evaluate-every 0", 6),
	newExample("Hopper", "Hopper-v2/trpo-uapg-s12_batch=500_targets=gae_rank=30",
		"--env Hopper-v2 --algorithm trpo --targets gae --batch 500 --rank 30 --seed 12 --evaluate-every 1", 6),
}

// all are, besides, the estimators whose updates are other code, and the preset best with segments in place of
// episodes.
var all = append(slices.Clone(examples),
	newExample("MC", "Hopper-v2/npg-mc-s13_batch=400",
		"--env Hopper-v2 --estimator mc --batch 400 --seed 13 --evaluate-every 0", 5),
	newExample("DBQPG", "Hopper-v2/vanilla-dbqpg-s14_batch=400_rank=20",
		"--env Hopper-v2 --algorithm vanilla --estimator dbqpg --batch 400 --rank 20 --seed 14 --evaluate-every 1", 5),
	newExample("Segments", "Hopper-v5/trpo-uapg-s15_batch=400_segment=25_rank=30",
		"--env Hopper-v5 --estimator uapg --segment 25 --batch 400 --rank 30 --seed 15 --evaluate-every 0", 6))

func newExample(name, run, flags string, iterations int) *example {
	e := &example{name: name, run: run, flags: flags, iterations: iterations}
	e.reference = sync.OnceValues(func() (outcome, error) {
		directory := filepath.Join(programs, "reference", name)
		learner := exec.Command(filepath.Join(programs, "learner"), e.arguments(directory, "--actors", "1")...)
		learner.Env = append(os.Environ(), "GOMAXPROCS=1")
		if output, err := learner.CombinedOutput(); err != nil {
			return outcome{}, fmt.Errorf("the undisturbed run: %w\n%s", err, output)
		}
		return readOutcome(directory)
	})
	return e
}

// arguments returns the learner's arguments for a run in a directory.
func (e *example) arguments(directory string, more ...string) []string {
	return slices.Concat(strings.Fields(e.flags),
		[]string{"--iterations", strconv.Itoa(e.iterations), "--listen", "127.0.0.1:0", "--run-dir", directory}, more)
}

// externally returns the learner's arguments for a run with a NATS server elsewhere.
func (e *example) externally(directory, url string, more ...string) []string {
	return slices.Concat(strings.Fields(e.flags),
		[]string{"--iterations", strconv.Itoa(e.iterations), "--nats", url, "--run-dir", directory}, more)
}

// forEachExample runs a test with each of examples, all at the same time.
func forEachExample(t *testing.T, test func(*testing.T, *example)) {
	forEach(t, examples, test)
}

func forEach(t *testing.T, examples []*example, test func(*testing.T, *example)) {
	t.Parallel()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// newDirectory returns the path of a run directory, which does not exist yet.
func newDirectory(t testing.TB) string { return filepath.Join(t.TempDir(), "run") }

// outcome is what a run leaves in its directory, without the wall clock's numbers and the epoch, which tells how
// often it was started.
type outcome struct {
	rows        []string // of progress.csv, the header first, without the seconds
	evaluations []string // of evaluations.csv, likewise
	state       *runs.State
	best        *runs.State
}

func readOutcome(directory string) (o outcome, err error) {
	progress, err := os.ReadFile(filepath.Join(directory, "progress.csv"))
	if err != nil {
		return o, err
	}
	o.rows = withoutSeconds(string(progress))
	evaluations, err := os.ReadFile(filepath.Join(directory, "evaluations.csv"))
	if err != nil {
		return o, err
	}
	o.evaluations = withoutSeconds(string(evaluations))
	checkpoints := filepath.Join(directory, "checkpoints")
	newest, ok, err := runs.Newest(checkpoints)
	if err != nil || !ok {
		return o, fmt.Errorf("the newest checkpoint: %v, %w", ok, err)
	}
	if o.state, err = readState(filepath.Join(checkpoints,
		fmt.Sprintf("iteration-%08d.safetensors", newest))); err != nil {
		return o, err
	}
	o.best, err = readState(filepath.Join(checkpoints, "best.safetensors"))
	return o, err
}

func readState(path string) (*runs.State, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	state, _, err := runs.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	state.Elapsed, state.Epoch = 0, 0
	return state, nil
}

// withoutSeconds returns a table's lines without the columns of the wall clock.
func withoutSeconds(table string) []string {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	names := strings.Split(lines[0], ",")
	for i, line := range lines {
		var kept []string
		for j, field := range strings.Split(line, ",") {
			if !strings.HasPrefix(names[j], "seconds_") {
				kept = append(kept, field)
			}
		}
		lines[i] = strings.Join(kept, ",")
	}
	return lines
}

// requireReference fails unless a run ended with the same bits as the undisturbed one.
func (e *example) requireReference(t testing.TB, directory string) {
	t.Helper()
	want, err := e.reference()
	if err != nil {
		t.Fatal(err)
	}
	got, err := readOutcome(directory)
	if err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, got, want)
}

func requireOutcome(t testing.TB, got, want outcome) {
	t.Helper()
	if !slices.Equal(got.rows, want.rows) {
		t.Errorf("progress.csv\n%s\nwant\n%s", strings.Join(got.rows, "\n"), strings.Join(want.rows, "\n"))
	}
	if !slices.Equal(got.evaluations, want.evaluations) {
		t.Errorf("evaluations.csv\n%s\nwant\n%s", strings.Join(got.evaluations, "\n"),
			strings.Join(want.evaluations, "\n"))
	}
	requireState(t, "the last state", got.state, want.state)
	requireState(t, "the best state", got.best, want.best)
	got.requireOwnBest(t)
}

// requireOwnBest fails unless the best checkpoint says of itself that it is the best, with the return that is in the
// row of its number and in no other row exceeded, and the newest checkpoint says the same. The rows are those of
// evaluations.csv, if there are any.
func (o outcome) requireOwnBest(t testing.TB) {
	t.Helper()
	if o.best.Best == nil || o.state.Best == nil || *o.best.Best != *o.state.Best ||
		o.best.Best.Iteration != o.best.Iteration {
		t.Fatalf("checkpoint %d says that the best is %+v, the newest that it is %+v", o.best.Iteration, o.best.Best,
			o.state.Best)
	}
	best, rows, name := *o.best.Best, o.rows, "return_mean"
	if best.Evaluated = len(o.evaluations) > 1; best.Evaluated {
		rows, name = o.evaluations, "mean_action_return"
	}
	if best != *o.best.Best {
		t.Errorf("the best is %+v, of a run with %d evaluations", *o.best.Best, len(o.evaluations)-1)
	}
	column, found := slices.Index(strings.Split(rows[0], ","), name), false
	for _, row := range rows[1:] {
		fields := strings.Split(row, ",")
		value, err := strconv.ParseFloat(fields[column], 64)
		if err != nil {
			t.Fatalf("row %s: %v", row, err)
		}
		own := fields[0] == fmt.Sprint(best.Iteration)
		if found = found || own; value > best.Return || own && value != best.Return {
			t.Errorf("row %s has the return %v, where the best is %+v", fields[0], value, best)
		}
	}
	if !found {
		t.Errorf("no row is of the best, %+v", best)
	}
}

func requireState(t testing.TB, what string, got, want *runs.State) {
	t.Helper()
	if g, w := counters(got), counters(want); g != w {
		t.Fatalf("%s: %s, want %s", what, g, w)
	}
	names := slices.Sorted(maps.Keys(want.Arrays))
	if g := slices.Sorted(maps.Keys(got.Arrays)); !slices.Equal(g, names) {
		t.Fatalf("%s: arrays %q, want %q", what, g, names)
	}
	for _, name := range names {
		requireBits(t, what+": "+name, got.Arrays[name], want.Arrays[name])
	}
}

// counters returns those of a state as text.
func counters(s *runs.State) string {
	best := "none"
	if s.Best != nil {
		best = fmt.Sprint(*s.Best)
	}
	c := s.Counters
	c.Best = nil
	return fmt.Sprintf("%+v, best %s", c, best)
}

func requireBits(t testing.TB, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
