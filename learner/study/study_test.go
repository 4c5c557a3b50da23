package main

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/config"
)

// Studies train runs by `study train` in processes of their own: in tests, by the tests' program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "train" {
		main()
		return
	}
	os.Exit(m.Run())
}

// study runs the program with these arguments.
func study(t testing.TB, arguments ...string) error {
	t.Helper()
	return studyUntil(t.Context(), arguments...)
}

func studyUntil(ctx context.Context, arguments ...string) error {
	cmd := newCommand()
	cmd.SetArgs(arguments)
	return cmd.ExecuteContext(ctx)
}

func mustStudy(t testing.TB, arguments ...string) {
	t.Helper()
	if err := study(t, arguments...); err != nil {
		t.Fatal(err)
	}
}

// tiny makes a comparison's runs as short as they can be: batches of some 15 Hopper episodes, two iterations.
func tiny(out, seeds string, more ...string) []string {
	return append([]string{"--out", out, "--env", "Hopper-v2", "--iterations", "2", "--seeds", seeds,
		"--set", "batch=300", "--set", "rank=8", "--parallel", "1"}, more...)
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// rows returns those of a table, without its header.
func rows(t testing.TB, path ...string) [][]string {
	t.Helper()
	all, err := readCSV(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return all[1:]
}

// returns has the iteration, the steps and the return of every row under data/.
func returns(t testing.TB, out string) [][]string {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(out, "data", "*", "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, table := range tables {
		for _, row := range rows(t, table) {
			all = append(all, row[:3])
		}
	}
	return all
}

// contains fails unless a text has all these.
func contains(t testing.TB, text string, wants ...string) {
	t.Helper()
	unwrapped := strings.Join(strings.Fields(text), " ")
	for _, want := range wants {
		if !strings.Contains(unwrapped, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// changed returns the modification times of the files under a directory.
func changed(t testing.TB, directory string) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		times[path] = info.ModTime()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// requireUnchanged fails if a file under a directory was written since.
func requireUnchanged(t testing.TB, directory string, before map[string]time.Time) {
	t.Helper()
	for path, at := range changed(t, directory) {
		if !at.Equal(before[path]) {
			t.Errorf("%s was written again", path)
		}
	}
}

// pictures fails unless there is a figure in both formats.
func pictures(t testing.TB, base string) {
	t.Helper()
	for suffix, start := range map[string]string{".svg": "<?xml", ".png": "\x89PNG"} {
		if !strings.HasPrefix(read(t, base+suffix), start) {
			t.Errorf("%s%s is no picture", base, suffix)
		}
	}
}

// Every experiment's page names quantities, statistics and comparisons that there are, and labels of its variants.
func TestExperimentsAreComplete(t *testing.T) {
	all := experiments()
	if len(all) < 11 {
		t.Fatalf("%d experiments", len(all))
	}
	for _, e := range all {
		if e.Title == "" || e.Short == "" || e.Question == "" || e.Method == "" || len(e.Page) == 0 ||
			measurements[e.Measure] == nil {
			t.Errorf("%s lacks something: %+v", e.name, e)
		}
		quantity := func(of string) {
			if _, ok := e.Quantities[of]; of != "" && !ok {
				t.Errorf("%s: there is no quantity %q", e.name, of)
			}
		}
		for _, b := range e.Page {
			for _, table := range []*table{b.Table, b.Claims} {
				if table == nil {
					continue
				}
				for _, c := range table.Cells {
					quantity(c.Of)
					_, mean := means[c.Mean]
					_, spread := spreads[c.Mean]
					known := statistics[c.As] != nil || formats[c.As] != nil || c.Label != "" || c.Fact != ""
					if table.Between != "" {
						known = map[string]bool{"difference": mean, "paired": mean, "ratio": spread,
							"probability": true}[c.As]
					}
					if !known {
						t.Errorf("%s: no statistic is called %q of %q", e.name, c.As, c.Mean)
					}
				}
			}
			if f := b.Figure; f != nil {
				quantity(f.Of)
				if f.Of != "" && statistics[f.As] == nil {
					t.Errorf("%s: no statistic is called %q", e.name, f.As)
				}
			}
		}
		for _, c := range e.Claims {
			for _, pair := range c.Pairs {
				for _, as := range pair {
					if e.Measure == "training" && !strings.Contains(fmt.Sprint(e.Variants), "{"+as+" ") {
						t.Errorf("%s: a claim is about %q, which is no variant", e.name, as)
					}
				}
			}
		}
		if e.name == "kernels" && len(e.Variants) != len(kernels.Names())+1 {
			t.Errorf("the kernels are %v, the variants %v", kernels.Names(), e.Variants)
		}
	}
}

// Every comparison trains its variants, writes all it promises, and has nothing left to train when it is run again.
func TestComparisons(t *testing.T) {
	for _, e := range experiments() {
		if e.Measure != "training" {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out")
			arguments, runs := append([]string{e.name}, tiny(out, "1,2")...), 2*len(e.Variants)
			if e.name == "kernels" { // are many
				arguments, runs = append([]string{e.name}, tiny(out, "1")...), len(e.Variants)
			}
			mustStudy(t, arguments...)
			if got := len(rows(t, out, "finals.csv")); got != len(e.Variants) {
				t.Errorf("finals.csv has %d rows, want %d", got, len(e.Variants))
			}
			requireLengths(t, out)
			if got := len(returns(t, out)); got != 2*runs {
				t.Errorf("%d rows are published, want %d", got, 2*runs)
			}
			pictures(t, filepath.Join(out, e.name))
			page := read(t, out, pageName)
			contains(t, page, "# "+e.Title, "The paper: ", "go run ./learner/study "+e.name+" --out", "(1)", "MuJoCo",
				"Go 1.")
			for _, v := range e.Variants {
				contains(t, page, "| "+v.labels(new(config.Settings))["name"]+" |")
			}
			before := changed(t, filepath.Join(out, "runs"))
			mustStudy(t, arguments...)
			requireUnchanged(t, filepath.Join(out, "runs"), before)
			if again := read(t, out, pageName); again != page {
				t.Errorf("the page has become\n%s\nit was\n%s", again, page)
			}
		})
	}
}

// requireLengths fails unless the lengths of steps in the table of finals are the medians of those of the runs.
func requireLengths(t *testing.T, out string) {
	t.Helper()
	for _, final := range rows(t, out, "finals.csv") {
		paths, err := filepath.Glob(filepath.Join(out, "data", final[0], fmt.Sprintf("*-%s-s*.csv", final[2])))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no data of %q, %v", final, err)
		}
		var lengths []float64
		for _, path := range paths {
			s, err := readColumns(path, "step_norm")
			if err != nil {
				t.Fatal(err)
			}
			lengths = append(lengths, s.columns["step_norm"]...)
		}
		want := middle(lengths)
		if got, err := strconv.ParseFloat(final[10], 64); err != nil || !(math.Abs(got-want) <= 1e-3*want) {
			t.Errorf("%s: steps of %v, %v, want %v", final[2], got, err, want)
		}
	}
}

// A comparison can be extended by seeds and iterations, ignores iterations beyond those requested, and reports on
// existing runs.
func TestComparisonGoesOn(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	arguments := func(seeds string, more ...string) []string {
		return append(append([]string{"curves"}, tiny(out, seeds, "--estimator", "mc,dbqpg")...), more...)
	}
	if err := study(t, arguments("1", "--only-report")...); err == nil ||
		!strings.Contains(err.Error(), "no run is complete yet") {
		t.Errorf("a report of nothing: %v", err)
	}
	mustStudy(t, arguments("1")...)
	contains(t, read(t, out, pageName), "**fewer than five: cannot tell** in 1 of 1 comparison")
	first := returns(t, out)
	if first[0][0] != "0" || first[1][0] != "1" {
		t.Errorf("iterations %s and %s, want 0 and 1", first[0][0], first[1][0])
	}

	mustStudy(t, arguments("1,2", "--iterations", "3")...)
	all := returns(t, out)
	if len(all) != 12 || fmt.Sprint(all[0]) != fmt.Sprint(first[0]) {
		t.Errorf("%d rows of two variants, two seeds and three iterations: %v", len(all), all)
	}
	before := changed(t, filepath.Join(out, "data"))
	mustStudy(t, arguments("1,2", "--iterations", "1", "--set", "gamma=0.995")...)
	requireUnchanged(t, filepath.Join(out, "data"), before)
	mustStudy(t, arguments("1,2,9", "--iterations", "3", "--only-report")...)
	contains(t, read(t, out, pageName), "4 of 6 runs are complete; the next is Hopper-v2 npg MC seed 9.")
	if strings.Contains(read(t, out, pageName), "only-report") {
		t.Error("the command repeats the report only")
	}

	// What is published is all that a page needs.
	page := read(t, out, pageName)
	if err := os.RemoveAll(filepath.Join(out, "runs")); err != nil {
		t.Fatal(err)
	}
	mustStudy(t, arguments("1,2", "--iterations", "3")...)
	requireUnchanged(t, filepath.Join(out, "data"), before)
	mustStudy(t, arguments("1,2,9", "--iterations", "3", "--only-report")...)
	if again := read(t, out, pageName); again != page {
		t.Errorf("without the runs' directories the page has become\n%s\nit was\n%s", again, page)
	}
}

// What cannot be is said in one line, before anything is trained.
func TestErrors(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	write(t, filepath.Join(other, pageName), "# My project\n")
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		arguments string
		want      string
	}{
		{"curves", "--out: name a directory"},
		{"curves --out " + other, "was not written by study curves"},
		{"curves --out OUT --env Swimer-v2", "did you mean Swimmer-v2?"},
		{"curves --out OUT --algorithm ngp", `"ngp" is not vanilla, npg or trpo`},
		{"curves --out OUT --estimator bq", "no such runs: check --env"},
		{"curves --out OUT --seeds 1,1", "--seeds: one is there twice"},
		{"curves --out OUT --iterations 0", "--iterations 0"},
		{"curves --out OUT --last 400", "--last 400"},
		{"curves --out OUT --set seed=3", "--set seed=3: the study decides it"},
		{"curves --out OUT --set gama=1", "unknown flag: --gama"},
		{"curves --out OUT --set gamma", "--set batch=16000"},
		{"curves --out OUT --set gamma=7", "--gamma 7: must be"},
		{"uncertainty --out OUT --algorithm npg", "--estimator ubac"},
		{"gradient-quality --out OUT --repeats 1", "--repeats 1"},
		{"gradient-quality --out OUT --sizes 5,5", "--sizes"},
		{"gradient-quality --out OUT --run x --seed 3", "--run and --seed"},
		{"gradient-quality --out OUT --run " + other, "it is no run's directory"},
		{"wall-clock --out OUT --sizes 10", "at least 2 --sizes"},
		{"wall-clock --out OUT --env Nix", "--env: unknown task"},
		{"best --out OUT " + other, "it is no run's directory"},
		{"report --out OUT", "name the run directories"},
		{"kernles --out OUT", "did you mean kernels?"},
		{"", "name a study: ablation, "},
	} {
		err := study(t, strings.Fields(strings.ReplaceAll(c.arguments, "OUT", out))...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("study %s: %v, want %q", c.arguments, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(out, "runs")); err == nil {
			t.Fatalf("study %s has trained", c.arguments)
		}
	}
}

// Runs made with other settings are neither overwritten nor mixed in.
func TestOtherSettings(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	mustStudy(t, append([]string{"curves"}, tiny(out, "1", "--estimator", "mc")...)...)
	before := changed(t, out)
	err := study(t, append([]string{"curves"}, tiny(out, "1", "--estimator", "mc", "--set", "gamma=0.9")...)...)
	if err == nil || !strings.Contains(err.Error(), "gamma was 0.995 and is now 0.9") {
		t.Errorf("error %v", err)
	}
	requireUnchanged(t, out, before)
}

// An interrupted study ends with the context's error; the next one finishes it.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	arguments := append([]string{"curves"}, tiny(out, "1", "--estimator", "mc")...)
	if err := studyUntil(ctx, arguments...); err == nil || ctx.Err() == nil {
		t.Errorf("error %v", err)
	}
	mustStudy(t, arguments...)
}

// What makes a study quick is set beside the user's settings, which count if they have it.
func TestQuick(t *testing.T) {
	for _, e := range experiments() {
		if e.name != "curves" {
			continue
		}
		cmd := e.command()
		if err := cmd.ParseFlags([]string{"--quick", "--set", "batch=500", "--iterations", "7"}); err != nil {
			t.Fatal(err)
		}
		if err := e.apply(cmd.Flags()); err != nil {
			t.Fatal(err)
		}
		set, err := cmd.Flags().GetStringArray("set")
		iterations, seeds := cmd.Flags().Lookup("iterations").Value, cmd.Flags().Lookup("seeds").Value
		if err != nil || fmt.Sprint(set, iterations, seeds) != "[batch=4000 batch=500] 7 [1,2]" {
			t.Error(set, iterations, seeds, err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	cmd, arguments, err := newCommand().Find([]string{"gradient-quality", "--out", "a b", "--at=0,10", "--run", "x",
		"--run", "it's", "--repeats", "3"})
	if err == nil {
		err = cmd.ParseFlags(arguments)
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = `go run ./learner/study gradient-quality --out 'a b' --at 0,10 --run x --run 'it'\''s' --repeats 3`
	if got := (&job{cmd: cmd}).command(); got != want {
		t.Errorf("command\n%s, want\n%s", got, want)
	}
}

// The times of updates make a table and a page, of which notes are part.
func TestWallClock(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	arguments := []string{"wall-clock", "--out", out, "--env", "Hopper-v2", "--sizes", "100,200", "--rounds", "2",
		"--set", "rank=8"}
	mustStudy(t, arguments...)
	if strings.Contains(read(t, out, pageName), "## Notes") {
		t.Error("notes without notes.md")
	}
	write(t, filepath.Join(out, notesName), "It rained.\n")
	mustStudy(t, append(arguments, "--only-report")...)
	contains(t, read(t, out, pageName), "## Notes It rained.", "The paper: the time grows linearly",
		"µs a sample, R² = 1.0000", "--sizes 100,200")
	pictures(t, filepath.Join(out, "wall-clock"))
	if got := len(rows(t, out, "wall-clock.csv")); got != 6 {
		t.Errorf("wall-clock.csv has %d rows", got)
	}
}

// Studies of the paper's experiments have its preset on every task, unless they are told another.
func TestStudiesHaveThePapersPreset(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want config.Preset
	}{{nil, config.Paper}, {[]string{"preset=best"}, config.Best}} {
		variants := []variant{{As: "mc", Settings: map[string]string{"estimator": "mc"}}}
		cmd := &cobra.Command{}
		m := training{experiment: &experiment{Variants: variants}}
		m.flags(cmd.Flags())
		m.envs, m.set = []string{"Swimmer-v2", "Hopper-v5"}, c.set
		if err := m.prepare(&job{cmd: cmd, out: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		clock := updates{experiment: m.experiment, env: "Hopper-v5", algorithm: "npg", sizes: []uint{500, 600},
			rounds: 1, set: c.set}
		if err := clock.prepare(nil); err != nil {
			t.Fatal(err)
		}
		for _, r := range m.trials {
			if r.settings.Preset != c.want || clock.settings["mc"].Preset != c.want {
				t.Errorf("--set %v: %s has the preset %s, timed updates have %s", c.set, r.name, r.settings.Preset,
					clock.settings["mc"].Preset)
			}
		}
	}
}

// A published table is as long as the run is to be, in iterations or in steps, or not complete.
func TestLengthOfATrial(t *testing.T) {
	steps := []float64{30, 50, 75, 90}
	for _, c := range []struct {
		length   config.Length
		rows     int
		complete bool
	}{
		{config.Length{Iterations: 3}, 3, true},
		{config.Length{Iterations: 4}, 4, true},
		{config.Length{Iterations: 5}, 4, false},
		{config.Length{Steps: 50}, 2, true},
		{config.Length{Steps: 51}, 3, true},
		{config.Length{Steps: 91}, 4, false},
	} {
		s := &config.Settings{Length: c.length}
		if rows, complete := length(s, steps); rows != c.rows || complete != c.complete {
			t.Errorf("%+v: %d rows, complete: %v", c.length, rows, complete)
		}
	}
}
