package study

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// planned returns what `learner study curves --plan` prints of a queue.
func planned(t *testing.T, queue string, arguments ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.yaml")
	write(t, path, queue)
	root := &cobra.Command{Use: "learner", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Command())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append([]string{"study", "curves", "--plan", "--out", filepath.Join(t.TempDir(), "out"), "--queue", path}, arguments...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

const twoEntries = `
- env: [Swimmer-v2, Hopper-v2]
  algorithm: npg
  estimator: [mc, uapg]
  preset: authors
  seed: [1, 2]
  iterations: 1000
- env: Hopper-v2
  algorithm: npg
  estimator: mc
  preset: authors
  targets: gae
  hidden: [32, 32]
  label: MC, GAE
  iterations: 10
`

// The runs of a queue are in its order, the seed varying slowest; flags select among them.
func TestQueue(t *testing.T) {
	lines := func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
	text, err := planned(t, twoEntries)
	if err != nil {
		t.Fatal(err)
	}
	all := lines(text)
	if len(all) != 10 || all[0] != "    0 of 1000 iterations  Swimmer-v2 npg MC seed 1" || all[3] != "    0 of 1000 iterations  Hopper-v2 npg UAPG seed 1" ||
		all[4] != "    0 of 1000 iterations  Swimmer-v2 npg MC seed 2" || all[8] != "    0 of 10 iterations  Hopper-v2 npg MC, GAE seed 1" ||
		!strings.HasPrefix(all[9], "0 of 9 runs are complete; left: unknown") {
		t.Errorf("the plan is\n%s", text)
	}
	for arguments, want := range map[string]int{"--env Hopper-v2": 5, "--seeds 2": 4, "--env Hopper-v2 --estimator mc --seeds 1": 2} {
		text, err := planned(t, twoEntries, strings.Fields(arguments)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(lines(text)) - 1; got != want {
			t.Errorf("with %s %d runs, want %d:\n%s", arguments, got, want, text)
		}
	}
}

func TestQueueNamesWhatIsWrong(t *testing.T) {
	for queue, want := range map[string]string{
		"":                                     "write a list of runs",
		"env: Swimmer-v2":                      "write a list of runs",
		"- Swimmer-v2":                         "line 1: write settings as name: value",
		"- env: Swimer-v2":                     "line 1: --env",
		"- env: Swimmer-v2\n- env: Swimmer-v2": "line 2: Swimmer-v2 npg UAPG seed 1 is in the entry of line 1 already",
		"- env: Swimmer-v2\n  gama: 1":         "line 1: unknown flag: --gama",
		"- env: Swimmer-v2\n  run_dir: x":      "line 1: run_dir is the study's to decide",
		"- env: Swimmer-v2\n  env: Hopper-v2":  "line 1: env is given twice",
		"- env: []":                            "line 1: env: has no value",
		"- env: {a: b}":                        "line 1: env: want a plain value",
		"- [":                                  "yaml",
		"- {env: Hopper-v2, arm: x}":           `arm: there is no "x"; there are fisher-uapg, mean-baseline, ridge-baseline`,
		"- {env: Hopper-v2, estimator: uapg, arm: fisher-uapg}":      "arm: fisher-uapg is for mc or dbqpg with npg or trpo",
		"- {env: HalfCheetah-v2, estimator: mc, arm: mean-baseline}": "arm: mean-baseline is for mc with --targets returns",
		"- {env: Hopper-v2, estimator: dbqpg, arm: ridge-baseline}":  "arm: ridge-baseline is for mc with",
	} {
		if _, err := planned(t, queue); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("queue %q: %v, want %q", queue, err, want)
		}
	}
	for arguments, want := range map[string]string{"--iterations 5": "write it into the queue", "--set gamma=0.9": "write it into the queue", "--quick": "says how long its runs are"} {
		if _, err := planned(t, twoEntries, strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	if _, err := planned(t, twoEntries, "--seeds", "7"); err == nil || !strings.Contains(err.Error(), "no such runs") {
		t.Errorf("a seed that is not there: %v", err)
	}
}

// A variant has one name on all tasks, and one colour, though GAE is what the authors' preset has on one of them and not on the other.
func TestVariantsOfOneNameHaveOneColour(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.yaml")
	write(t, path, "- {env: [Hopper-v2, HalfCheetah-v2], preset: authors, estimator: [mc, uapg]}\n"+
		"- {env: [Hopper-v2, HalfCheetah-v2], preset: authors, estimator: mc, targets: gae, value_learning: converge, label: MC with GAE}\n"+
		"- {env: HalfCheetah-v2, preset: authors, estimator: mc, gamma: 0.9, label: another}\n")
	all, err := (&compareOptions{queue: path}).queued(&job{cmd: comparisons[0].command(), out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	colors, directories := map[string]int{}, map[string]bool{}
	for _, m := range all {
		directories[m.variant.directory] = true
		if color, known := colors[m.variant.name]; known && color != m.variant.color {
			t.Errorf("%s has colours %d and %d", m.variant.name, color, m.variant.color)
		}
		colors[m.variant.name] = m.variant.color
	}
	if len(directories) != 5 || len(colors) != 4 || colors["MC with GAE"] == colors["another"] {
		t.Errorf("directories %v, colours %v", directories, colors)
	}
}

// The queues of docs/results have runs that can be made.
func TestCommittedQueues(t *testing.T) {
	queues, err := filepath.Glob("../../docs/results/*/queue*.yaml")
	if err != nil || len(queues) < 3 {
		t.Fatalf("queues %q, %v", queues, err)
	}
	for _, path := range queues {
		if _, err := planned(t, read(t, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An arm makes a run other than its settings do, in a place and with a record of its own, and resumes; no other
// process can.
func TestArms(t *testing.T) {
	out := t.TempDir()
	queue := filepath.Join(out, "queue.yaml")
	const common = "env: Hopper-v2, algorithm: npg, batch: 600, rank: 8, evaluate_every: 0"
	entries := func(iterations int) string {
		var all strings.Builder
		for _, entry := range []string{"estimator: dbqpg", "estimator: dbqpg, arm: fisher-uapg", "estimator: uapg", "estimator: mc",
			"estimator: mc, arm: fisher-uapg", "estimator: mc, arm: ridge-baseline", "estimator: mc, arm: mean-baseline"} {
			fmt.Fprintf(&all, "- {%s, iterations: %d, %s}\n", common, iterations, entry)
		}
		return all.String()
	}
	curves := []string{"curves", "--out", out, "--queue", queue, "--parallel", "1"}
	write(t, queue, entries(1))
	if err := study(t, append(curves[:5:5], "--parallel", "2")...); err == nil || !strings.Contains(err.Error(), "--parallel 1") {
		t.Errorf("two at a time: %v", err)
	}
	mustStudy(t, curves...)
	write(t, queue, entries(3))
	mustStudy(t, curves...)
	last := map[string]string{} // returns, by run
	for _, name := range []string{"dbqpg-paper", "dbqpg-paper_arm=fisher-uapg", "uapg-paper", "mc-paper", "mc-paper_arm=fisher-uapg",
		"mc-paper_arm=ridge-baseline", "mc-paper_arm=mean-baseline"} {
		data := filepath.Join(out, "data", "Hopper-v2", "npg-"+strings.Replace(name, "-paper", "-paper_batch=600_rank=8", 1)+"-s1")
		all := rows(t, data+".csv")
		if other, twice := last[all[2][2]]; twice {
			t.Errorf("%s returns what %s does", name, other)
		}
		last[all[2][2]] = name
		_, arm, _ := strings.Cut(name, "_arm=")
		if record := read(t, data+".yaml"); strings.Contains(record, "arm: "+arm) != (arm != "") {
			t.Errorf("the record of %s is\n%s", name, record)
		}
	}
	// What another arm made is not taken for this one's.
	stale := filepath.Join(out, "data", "Hopper-v2", "npg-mc-paper_batch=600_rank=8_arm=mean-baseline-s1.yaml")
	write(t, stale, strings.Replace(read(t, stale), "arm: mean-baseline", "arm: ridge-baseline", 1))
	if err := study(t, append(curves, "--only-report")...); err == nil || !strings.Contains(err.Error(), "arm") {
		t.Errorf("a record with another arm: %v", err)
	}
}

// Runs with two presets are drawn by environment steps too, up to those that all have.
func TestBySteps(t *testing.T) {
	r := made()
	if figure := bySteps(r); figure != nil {
		t.Errorf("of one preset: %+v", figure)
	}
	for i, g := range r.groups {
		g.preset = []string{"authors", "best"}[i%2]
		g.env = "A"
		for range g.returns {
			g.steps = append(g.steps, [][]float64{{100, 200, 300}, {50, 100, 150}}[i%2])
		}
	}
	figure := bySteps(&results{groups: r.groups[:2], last: 2})
	if len(figure) != 1 || len(figure[0]) != 1 {
		t.Fatalf("%d rows of panels", len(figure))
	}
	var got []string
	for _, s := range figure[0][0].Series {
		if !s.Thin {
			got = append(got, fmt.Sprint(s.Name, s.X))
		}
	}
	if want := "[MC, npg, authors[100] DBQPG, npg, best[50 100 150]]"; fmt.Sprint(got) != want {
		t.Errorf("lines %v, want %s", got, want)
	}
	// Of MC's runs all have 0 in their first iteration, of DBQPG's 100 and 80 in the last.
	if got, want := fmt.Sprint(atTheEnd(figure)), "[[A MC, npg, authors 100 0] [A DBQPG, npg, best 150 90 [80, 100]]]"; got != want {
		t.Errorf("at the end %s, want %s", got, want)
	}
}

func TestColorOf(t *testing.T) {
	var names []string
	var got []int
	for _, c := range []struct {
		name      string
		preferred int
	}{{"a", 2}, {"b", 0}, {"c", 2}, {"a", 0}, {"d", 0}, {"e", 1}} {
		got = append(got, colorOf(&names, c.name, c.preferred))
	}
	if want := "[2 0 1 2 3 4]"; fmt.Sprint(got) != want {
		t.Errorf("colours %v, want %s", got, want)
	}
}

// Whose runs they are is on the page: several programs are never mixed in silence.
func TestProvenance(t *testing.T) {
	r := new(results)
	r.record([]runs.Build{{Program: "commit a", Machine: "one"}})
	if got := r.provenance(); got != "Trained by commit a. one" {
		t.Errorf("provenance %q", got)
	}
	r.record([]runs.Build{{Program: "commit a", Machine: "one"}, {Iteration: 7, Program: "commit b", Machine: "two"}})
	r.record(nil)
	const want = "**Trained by several programs**, whose runs may differ in more than the page says: 1 run by commit a; 1 run by commit a, then by commit b; " +
		"1 run by a program that kept no record. one; two"
	if got := r.provenance(); got != want {
		t.Errorf("provenance %q, want %q", got, want)
	}
}

// The time left is judged by the last iterations, of which one that took an hour, because the machine slept, is one of twenty.
func TestPace(t *testing.T) {
	directory := t.TempDir()
	var table strings.Builder
	table.WriteString("iteration,seconds_sampling,seconds_updating\n")
	for i := range 100 {
		sampling := 7.0 // at first, which says nothing of now
		switch {
		case i == 90:
			sampling = 3600
		case i >= 80:
			sampling = 1
		}
		fmt.Fprintf(&table, "%d,%g,0.5\n", i, sampling)
	}
	write(t, runs.ProgressFile(directory), table.String())
	if pace := (trial{settings: &config.Settings{RunDir: directory}}).pace(); pace != 1.5 {
		t.Errorf("%g s an iteration, want 1.5", pace)
	}
}
