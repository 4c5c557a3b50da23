package study

import (
	"context"
	"encoding/csv"
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

	"github.com/dbqpg/dbqpg/internal/config"
)

// study runs `learner study` with these arguments.
func study(t testing.TB, arguments ...string) error {
	t.Helper()
	root := &cobra.Command{Use: "learner", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Command())
	root.SetArgs(append([]string{"study"}, arguments...))
	return root.ExecuteContext(t.Context())
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

// rows returns those of a table, without its header.
func rows(t testing.TB, path ...string) [][]string {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(read(t, path...))).ReadAll()
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
			columns, err := readColumns(path, "step_norm")
			if err != nil {
				t.Fatal(err)
			}
			lengths = append(lengths, columns[0]...)
		}
		want := middle(lengths)
		if got, err := strconv.ParseFloat(final[10], 64); err != nil || !(math.Abs(got-want) <= 1e-3*want) {
			t.Errorf("%s: steps of %v, %v, want %v", final[2], got, err, want)
		}
	}
}

// Every comparison trains its variants, writes all it promises, and has nothing left to train when it is run again.
func TestComparisons(t *testing.T) {
	for _, c := range comparisons {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out")
			variants := c.variants
			arguments, runs := append([]string{c.name}, tiny(out, "1,2")...), 2*len(variants)
			if c.name == "kernels" { // are many
				arguments, runs = append([]string{c.name}, tiny(out, "1")...), len(variants)
			}
			mustStudy(t, arguments...)
			if got := len(rows(t, out, "finals.csv")); got != len(variants) {
				t.Errorf("finals.csv has %d rows, want %d", got, len(variants))
			}
			requireLengths(t, out)
			if got := len(returns(t, out)); got != 2*runs {
				t.Errorf("%d rows are published, want %d", got, 2*runs)
			}
			pictures(t, filepath.Join(out, c.name))
			page := read(t, out, pageName)
			contains(t, page, "# "+c.title, "The paper: ", "go run ./learner study "+c.name+" --out", "Seeds 1", "MuJoCo", "Go 1.")
			for _, v := range variants {
				contains(t, page, "| "+v.name+" |")
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

// A comparison can be extended by seeds and iterations, ignores iterations beyond those requested, and reports on existing
// runs.
func TestComparisonGoesOn(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	arguments := func(seeds string, more ...string) []string {
		return append(append([]string{"curves"}, tiny(out, seeds, "--estimator", "mc,dbqpg")...), more...)
	}
	if err := study(t, arguments("1", "--only-report")...); err == nil || !strings.Contains(err.Error(), "no run is complete yet") {
		t.Errorf("a report of nothing: %v", err)
	}
	mustStudy(t, arguments("1")...)
	contains(t, read(t, out, pageName), "fewer than five runs of each cannot tell")
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
	contains(t, read(t, out, pageName), "over the last 1 iteration of 1.")
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
	if err := os.WriteFile(filepath.Join(other, pageName), []byte("# My project\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		arguments string
		want      string
	}{
		{"curves", "--out: say which directory"},
		{"curves --out " + other, "was not written by study curves"},
		{"curves --out OUT --env Swimer-v2", "did you mean Swimmer-v2?"},
		{"curves --out OUT --algorithm ngp", `"ngp" is not vanilla, npg or trpo`},
		{"curves --out OUT --estimator bq", "--estimator bq: want mc, dbqpg or uapg"},
		{"curves --out OUT --seeds 1,1", "--seeds: one is there twice"},
		{"curves --out OUT --iterations 0", "--iterations 0"},
		{"curves --out OUT --last 400", "--last 400"},
		{"curves --out OUT --set seed=3", "--set seed=3: the study decides it, by --seeds"},
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
		{"kernles --out OUT", "did you mean kernels?"},
		{"", "study: say which: ablation, "},
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

// Runs and measurements made with other settings are neither overwritten nor mixed in.
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
	root := Command()
	root.SilenceErrors, root.SilenceUsage = true, true
	arguments := append([]string{"curves"}, tiny(out, "1", "--estimator", "mc")...)
	root.SetArgs(arguments)
	if err := root.ExecuteContext(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("error %v", err)
	}
	mustStudy(t, arguments...)
}

// What makes a study quick is set beside the user's settings, unless these have it.
func TestQuick(t *testing.T) {
	for own, want := range map[string]string{"gamma=0.9": "[batch=4000 gamma=0.9]", "batch=500": "[batch=500]"} {
		cmd := comparisons[0].command()
		if err := cmd.ParseFlags([]string{"--quick", "--set", own}); err != nil {
			t.Fatal(err)
		}
		if err := apply(cmd, comparisons[0].quick); err != nil {
			t.Fatal(err)
		}
		if got, err := cmd.Flags().GetStringArray("set"); err != nil || fmt.Sprint(got) != want {
			t.Errorf("--set %s: %v, %v, want %s", own, got, err, want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	j := new(job)
	cmd := qualityCommand()
	(&cobra.Command{Use: "learner"}).AddCommand(cmd)
	if err := cmd.ParseFlags([]string{"--out", "a b", "--at=0,10", "--run", "x", "--run", "it's", "--repeats", "3"}); err != nil {
		t.Fatal(err)
	}
	j.cmd = cmd
	const want = `go run ./learner gradient-quality --out 'a b' --at 0,10 --run x --run 'it'\''s' --repeats 3`
	if got := j.command(); got != want {
		t.Errorf("command\n%s, want\n%s", got, want)
	}
}

// Notes are part of the page.
func TestNotes(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	arguments := []string{"wall-clock", "--out", out, "--env", "Hopper-v2", "--sizes", "100,200", "--rounds", "2", "--set", "rank=8"}
	mustStudy(t, arguments...)
	if strings.Contains(read(t, out, pageName), "## Notes") {
		t.Error("notes without notes.md")
	}
	if err := os.WriteFile(filepath.Join(out, notesName), []byte("It rained.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	units := changed(t, filepath.Join(out, "units"))
	mustStudy(t, arguments...)
	requireUnchanged(t, filepath.Join(out, "units"), units)
	contains(t, read(t, out, pageName), "## Notes It rained.", "Straight lines", "The paper: the time grows linearly", "Here: **cannot tell**, of two sizes", "--sizes 100,200")
	pictures(t, filepath.Join(out, "wall-clock"))
	if got := len(rows(t, out, "wall-clock.csv")); got != 6 {
		t.Errorf("wall-clock.csv has %d rows", got)
	}
	err := study(t, append(arguments, "--rounds", "3")...)
	if err == nil || !strings.Contains(err.Error(), "rounds was 2 and is now 3") {
		t.Errorf("error %v", err)
	}
}

// Studies of the paper's experiments have its preset on every task, unless they are told another.
func TestStudiesHaveThePapersPreset(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want config.Preset
	}{{nil, config.Paper}, {[]string{"preset=best"}, config.Best}} {
		o := compareOptions{envs: []string{"Swimmer-v2", "Hopper-v5"}, algorithms: []string{"npg"}, estimators: []string{"mc"},
			seeds: []uint{1}, iterations: 1, set: c.set}
		members, err := comparisons[0].members(&job{out: t.TempDir()}, &o)
		if err != nil {
			t.Fatal(err)
		}
		clock := wallClockOptions{env: "Hopper-v5", algorithm: "npg", sizes: []uint{500}, set: c.set}
		settings, err := clock.settings()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if m.settings.Preset != c.want || settings["mc"].Preset != c.want {
				t.Errorf("--set %v: %s has the preset %s, timed updates have %s", c.set, m.name, m.settings.Preset, settings["mc"].Preset)
			}
		}
	}
}
