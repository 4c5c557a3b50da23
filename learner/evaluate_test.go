package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/learner/evaluate"
)

// shortRun trains in a directory and returns what that leaves.
func shortRun(t *testing.T, directory string, more ...string) outcome {
	t.Helper()
	arguments := strings.Fields("--env Hopper-v2 --batch 400 --rank 20 --seed 5 --actors 2 " +
		"--listen 127.0.0.1:0 --run-dir " + directory)
	start(t, "learner", append(arguments, more...)...).Succeed()
	o, err := readOutcome(directory)
	if err != nil {
		t.Fatal(err)
	}
	o.requireOwnBest(t)
	return o
}

// withoutBest forgets what only evaluations decide.
func (o outcome) withoutBest() outcome {
	o.evaluations, o.best = nil, nil
	state := *o.state
	state.Best = nil
	o.state = &state
	return o
}

// firstFields are the rows' numbers of iterations.
func firstFields(rows []string) (iterations []string) {
	for _, row := range rows[1:] {
		number, _, _ := strings.Cut(row, ",")
		iterations = append(iterations, number)
	}
	return iterations
}

// Training does not depend on evaluations: only the choice of the best policy does.
func TestEvaluationsChangeNothing(t *testing.T) {
	t.Parallel()
	without := shortRun(t, newDirectory(t), "--iterations", "5", "--evaluate-every", "0")
	for every, evaluated := range map[string][]string{"2": {"0", "2", "4", "5"}, "5": {"0", "5"}} {
		with := shortRun(t, newDirectory(t), "--iterations", "5", "--evaluate-every", every)
		if got := firstFields(with.evaluations); !slices.Equal(got, evaluated) {
			t.Errorf("--evaluate-every %s: evaluated are %q, want %q", every, got, evaluated)
		}
		got, want := with.withoutBest(), without.withoutBest()
		if !slices.Equal(got.rows, want.rows) {
			t.Errorf("--evaluate-every %s: progress.csv\n%s\nwant\n%s", every, strings.Join(got.rows, "\n"),
				strings.Join(want.rows, "\n"))
		}
		requireState(t, "--evaluate-every "+every, got.state, want.state)
	}
}

// A run of so many steps evaluates few policies of itself, beside its training or not, with the same bits. Raised, it
// goes on as if it had been so long from the start, but for the row of what was its last checkpoint.
func TestSteps(t *testing.T) {
	t.Parallel()
	run := func(directory string, more ...string) outcome {
		arguments := strings.Fields("--env Reacher-v5 --estimator mc --segment 0 --batch 500 --seed 5 " +
			"--listen 127.0.0.1:0 --run-dir " + directory)
		start(t, "learner", append(arguments, more...)...).Succeed()
		o, err := readOutcome(directory)
		if err != nil {
			t.Fatal(err)
		}
		o.requireOwnBest(t)
		return o
	}
	directory := newDirectory(t)
	short := run(directory, "--steps", "12450", "--actors", "1")
	if got := column(short.evaluations, "iteration"); !slices.Equal(got, []string{"10", "20", "24"}) ||
		short.state.Steps != 12500 {
		t.Errorf("evaluated are %q, after %d steps", got, short.state.Steps)
	}
	if got := column(short.evaluations, "episodes"); !slices.Equal(got, []string{"3", "3", "2"}) {
		t.Errorf("with %q episodes", got)
	}
	if got := column(short.evaluations, "sampled_action_length"); !slices.Equal(got, []string{"", "", "50"}) {
		t.Errorf("sampled actions for %q steps", got)
	}
	start(t, "learner", "--run-dir", directory,
		"--resume").Expect(`msg="the run is complete" .*"to go on"="--resume --steps 24900"`)
	// if that is not more than 10, nothing goes on beside
	long := run(newDirectory(t), "--steps", "16000", "--actors", strconv.Itoa(runtime.NumCPU()))
	raised := run(directory, "--resume", "--steps", "16000")
	if !slices.Equal(raised.rows, long.rows) {
		t.Errorf("progress.csv\n%s\nwant\n%s", strings.Join(raised.rows, "\n"), strings.Join(long.rows, "\n"))
	}
	requireState(t, "the last state", raised.withoutBest().state, long.withoutBest().state)
	if got := slices.DeleteFunc(raised.evaluations,
		func(row string) bool { return strings.HasPrefix(row, "24,") }); !slices.Equal(got, long.evaluations) {
		t.Errorf("evaluations.csv\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(long.evaluations, "\n"))
	}
}

// column returns a column of a table.
func column(table []string, name string) (values []string) {
	at := slices.Index(strings.Split(table[0], ","), name)
	for _, row := range table[1:] {
		values = append(values, strings.Split(row, ",")[at])
	}
	return values
}

// With segments a run has exactly the steps that it is to have, also if they are raised.
func TestExactSteps(t *testing.T) {
	t.Parallel()
	directory := newDirectory(t)
	run := func(more ...string) *process {
		arguments := strings.Fields("--env Hopper-v5 --preset best --estimator mc --segment 25 --batch 400 " +
			"--listen 127.0.0.1:0 --run-dir " + directory)
		return start(t, "learner", append(arguments, more...)...)
	}
	for _, steps := range []uint64{2013, 3300} {
		run("--steps", fmt.Sprint(steps), "--resume=auto").Succeed()
		o, err := readOutcome(directory)
		if err != nil || o.state.Steps != steps {
			t.Fatalf("%d steps, %v, want %d", o.state.Steps, err, steps)
		}
	}
	run("--resume", "--steps", "3301").fail(
		"--steps 3301: the run has 3300, and its next batch 400 more; give 3700 or more")
	run("--resume", "--steps", "4000", "--iterations",
		"20").fail("--iterations 20 and --steps 4000: give one or the other")
	run("--resume", "--iterations", "20").Succeed()
	if o, err := readOutcome(directory); err != nil || o.state.Iteration != 20 {
		t.Errorf("%d iterations, %v", o.state.Iteration, err)
	}
}

// A finished run that is given more iterations becomes the run that had them from the start.
func TestExtended(t *testing.T) {
	t.Parallel()
	want := shortRun(t, newDirectory(t), "--iterations", "5", "--evaluate-every", "2")
	directory := newDirectory(t)
	shortRun(t, directory, "--iterations", "2", "--evaluate-every", "2")
	requireOutcome(t, shortRun(t, directory, "--resume", "--iterations", "5"), want)

	// A length that evaluations do not hit leaves one more of them, and nothing else.
	shortRun(t, directory+"-odd", "--iterations", "3", "--evaluate-every", "2")
	got := shortRun(t, directory+"-odd", "--resume", "--iterations", "5")
	if evaluated := firstFields(got.evaluations); !slices.Equal(evaluated, []string{"0", "2", "3", "4", "5"}) {
		t.Errorf("evaluated are %q", evaluated)
	}
	if !slices.Equal(got.rows, want.rows) {
		t.Errorf("progress.csv\n%s\nwant\n%s", strings.Join(got.rows, "\n"), strings.Join(want.rows, "\n"))
	}
	requireState(t, "the last state", got.withoutBest().state, want.withoutBest().state)
}

// The command plays what was played while training, on any number of cores.
func TestEvaluateCommand(t *testing.T) {
	t.Parallel()
	directory := newDirectory(t)
	o := shortRun(t, directory, "--iterations", "3", "--evaluate-every", "2")
	names := strings.Split(o.evaluations[0], ",")
	for _, row := range o.evaluations[2:] { // 2 and 3 still have checkpoints
		fields := map[string]string{}
		for i, field := range strings.Split(row, ",") {
			fields[names[i]] = field
		}
		for cores := range 2 {
			report := evaluateJSON(t, cores+1, directory, "--checkpoint", fields["iteration"], "--episodes", "10")
			got := map[string]string{"iteration": strconv.FormatUint(report.Iteration, 10),
				"steps": strconv.FormatUint(report.Steps, 10), "episodes": strconv.Itoa(report.Episodes)}
			for action, s := range map[string]evaluate.Summary{
				"mean": report.Mean.Summary, "sampled": report.Sampled.Summary,
			} {
				for statistic, value := range map[string]float64{
					"return": s.Mean, "standard_error": s.StandardError, "iqm": s.IQM, "min": s.Min, "max": s.Max,
					"length": s.LengthMean,
				} {
					got[action+"_action_"+statistic] = strconv.FormatFloat(value, 'g', -1, 64)
				}
			}
			if !maps.Equal(got, fields) {
				t.Errorf("on %d cores: %v, want %v", cores+1, got, fields)
			}
		}
	}
	best := evaluateJSON(t, 2, directory)
	if best.Iteration != o.best.Iteration || best.Episodes != 100 || len(best.Mean.Returns) != 100 ||
		len(best.Sampled.Lengths) != 100 {
		t.Errorf("%d episodes of checkpoint %d, where the best is %d", best.Episodes, best.Iteration, o.best.Iteration)
	}
	table := start(t, "learner", "evaluate", filepath.Join(directory, "checkpoints", "best.safetensors"), "--seed", "3",
		"--episodes", "2")
	table.Succeed()
	for _, want := range []string{
		"Hopper-v2, iteration ", "2 episodes of seed 3", "interquartile mean", "sampled action", "longest",
	} {
		table.Expect(want)
	}
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{[]string{directory, "--checkpoint", "7"},
			`no checkpoint "7": there are best, iteration-00000002, iteration-00000003`},
		{[]string{directory + "s"}, "neither a run nor a checkpoint"},
		{[]string{filepath.Dir(directory)}, "is no run"},
		{[]string{directory, "--episodes", "1"}, "--episodes 1: must be from 2"},
		{nil, "name one run"},
	} {
		start(t, "learner", append([]string{"evaluate"}, c.arguments...)...).fail(c.want)
	}
}

// evaluateJSON runs `learner evaluate --json` on so many cores.
func evaluateJSON(t *testing.T, cores int, arguments ...string) (report evaluate.Report) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "learner"), append([]string{"evaluate", "--json"}, arguments...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(cores)), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(output, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// A new run starts from a trained policy, and goes on without the source.
func TestFrom(t *testing.T) {
	t.Parallel()
	source, whole, stopped := newDirectory(t), newDirectory(t), newDirectory(t)
	shortRun(t, source, "--iterations", "2", "--evaluate-every", "1")
	from := []string{"--from", source, "--learning-rate", "1e-4", "--evaluate-every", "1", "--iterations"}
	want := shortRun(t, whole, append(from, "3")...)
	shortRun(t, stopped, append(from, "1")...)
	data, err := os.ReadFile(filepath.Join(source, "checkpoints", "best.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); want.state.From != hex.EncodeToString(sum[:]) {
		t.Errorf("started from %s, where the best is %x", want.state.From, sum)
	}
	first := evaluateJSON(t, 2, source, "--episodes", "10")
	if values := strings.Split(want.evaluations[1], ","); values[3] != strconv.FormatFloat(first.Mean.Mean, 'g', -1,
		64) {
		t.Errorf("the first policy reaches %s, the source's %v", values[3], first.Mean.Mean)
	}

	start(t, "learner", "--env", "Swimmer-v2", "--run-dir", newDirectory(t), "--from",
		source).fail("hidden layers [64 64] and 3 actions", "hidden layers [64 64] and 2 actions")
	none := newDirectory(t)
	start(t, "learner", "--env", "Hopper-v2", "--run-dir", none, "--from",
		source+"s").fail("--from " + source + "s: neither a run nor a checkpoint")
	if _, err := os.Stat(none); err == nil {
		t.Error("a run that could not start has left a directory")
	}
	if err := os.RemoveAll(source); err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, shortRun(t, stopped, "--resume", "--iterations", "3"), want)
	start(t, "learner", "--run-dir", stopped, "--resume", "--from",
		whole).fail("from was " + source + " and is now " + whole)
}
