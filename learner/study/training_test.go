package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/learner/runs"
)

// planned returns what `study curves --plan` prints of a queue.
func planned(t *testing.T, queue string, arguments ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.yaml")
	write(t, path, queue)
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"curves", "--plan", "--out", filepath.Join(t.TempDir(), "out"), "--queue", path},
		arguments...))
	err := cmd.ExecuteContext(t.Context())
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
	if len(all) != 9 || all[0] != "    0 of 1000 iterations  Swimmer-v2 npg MC seed 1" ||
		all[3] != "    0 of 1000 iterations  Hopper-v2 npg UAPG seed 1" ||
		all[4] != "    0 of 1000 iterations  Swimmer-v2 npg MC seed 2" ||
		all[8] != "    0 of 10 iterations  Hopper-v2 npg MC, GAE seed 1" {
		t.Errorf("the plan is\n%s", text)
	}
	for arguments, want := range map[string]int{"--env Hopper-v2": 5, "--seeds 2": 4,
		"--env Hopper-v2 --estimator mc --seeds 1": 2} {
		text, err := planned(t, twoEntries, strings.Fields(arguments)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(lines(text)); got != want {
			t.Errorf("with %s %d runs, want %d:\n%s", arguments, got, want, text)
		}
	}
}

func TestQueueNamesWhatIsWrong(t *testing.T) {
	for queue, want := range map[string]string{
		"":                                     "write a list of runs",
		"env: Swimmer-v2":                      "write a list of runs",
		"- Swimmer-v2":                         "line 1: yaml: unmarshal errors",
		"- env: Swimer-v2":                     "line 1: --env",
		"- env: Swimmer-v2\n- env: Swimmer-v2": "line 2: Swimmer-v2 npg UAPG seed 1 is there twice",
		"- env: Swimmer-v2\n  gama: 1":         "line 1: unknown flag: --gama",
		"- env: Swimmer-v2\n  run_dir: x":      "line 1: run_dir is the study's to decide",
		"- env: Swimmer-v2\n  env: Hopper-v2":  `line 1: yaml: unmarshal errors`,
		"- env: []":                            "line 1: env: it has no value",
		"- env: {a: b}":                        "line 1: want a plain value",
		"- [":                                  "yaml",
		"- {env: Hopper-v2, arm: x}":           `"x"; there are fisher-uapg, mean-baseline, ridge-baseline`,
		"- {env: Hopper-v2, estimator: uapg, arm: fisher-uapg}": "arm: fisher-uapg is not for uapg by npg with",
		"- {env: HalfCheetah-v2, estimator: mc, arm: mean-baseline}": "arm: mean-baseline is not for mc by npg with " +
			"the targets gae",
		"- {env: Hopper-v2, estimator: dbqpg, arm: ridge-baseline}": "arm: ridge-baseline is not for dbqpg",
	} {
		if _, err := planned(t, queue); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("queue %q: %v, want %q", queue, err, want)
		}
	}
	for arguments, want := range map[string]string{"--iterations 5": "write it into the queue",
		"--set gamma=0.9": "write it into the queue",
		"--quick":         "write it into the queue", "--seeds 7": "no such runs"} {
		if _, err := planned(t, twoEntries, strings.Fields(arguments)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

// queued returns the runs of a queue.
func queued(t *testing.T, queue string) []*trial {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.yaml")
	write(t, path, queue)
	cmd := &cobra.Command{}
	m := &training{experiment: &experiment{}}
	m.flags(cmd.Flags())
	m.queue = path
	if err := m.prepare(&job{cmd: cmd, out: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	return m.trials
}

// A variant has one name on all tasks, and one colour, though GAE is what the authors' preset has on one of them and
// not on the other.
func TestVariantsOfOneNameHaveOneColour(t *testing.T) {
	var all []*series
	for _, r := range queued(t, "- {env: [Hopper-v2, HalfCheetah-v2], preset: authors, estimator: [mc, uapg]}\n"+
		"- {env: [Hopper-v2, HalfCheetah-v2], preset: authors, estimator: mc, targets: gae, value_learning: "+
		"converge, label: MC with GAE}\n"+
		"- {env: HalfCheetah-v2, preset: authors, estimator: mc, gamma: 0.9, label: another}\n") {
		all = append(all, &series{labels: r.variant.labels(r.settings), color: r.variant.Color})
	}
	distinguish(all)
	colors, variants := map[string]int{}, map[string]bool{}
	for _, s := range all {
		variants[s.labels["variant"]] = true
		if color, known := colors[s.labels["name"]]; known && color != s.color {
			t.Errorf("%s has colours %d and %d", s.labels["name"], color, s.color)
		}
		colors[s.labels["name"]] = s.color
	}
	if len(variants) != 5 || len(colors) != 4 || colors["MC with GAE"] == colors["another"] {
		t.Errorf("variants %v, colours %v", variants, colors)
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

// An arm makes a run other than its settings do, in a place and with a record of its own, and resumes.
func TestArms(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	queue := filepath.Join(out, "queue.yaml")
	const common = "env: Hopper-v2, algorithm: npg, batch: 600, rank: 8, evaluate_every: 0"
	entries := func(iterations int) string {
		var all strings.Builder
		for _, entry := range []string{"estimator: dbqpg", "estimator: dbqpg, arm: fisher-uapg", "estimator: uapg",
			"estimator: mc",
			"estimator: mc, arm: fisher-uapg", "estimator: mc, arm: ridge-baseline",
			"estimator: mc, arm: mean-baseline"} {
			fmt.Fprintf(&all, "- {%s, iterations: %d, %s}\n", common, iterations, entry)
		}
		return all.String()
	}
	curves := []string{"curves", "--out", out, "--queue", queue, "--parallel", "2"}
	write(t, queue, entries(1))
	mustStudy(t, curves...)
	write(t, queue, entries(3))
	mustStudy(t, curves...)
	last := map[string]string{} // returns, by run
	for _, name := range []string{"dbqpg-paper", "dbqpg-paper_arm=fisher-uapg", "uapg-paper", "mc-paper",
		"mc-paper_arm=fisher-uapg",
		"mc-paper_arm=ridge-baseline", "mc-paper_arm=mean-baseline"} {
		data := filepath.Join(out, "data", "Hopper-v2", "npg-"+strings.Replace(name, "-paper",
			"-paper_batch=600_rank=8", 1)+"-s1")
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

// A study of several programs' runs says so.
func TestProvenance(t *testing.T) {
	of := func(builds ...runs.Build) *series { return &series{record: &record{Builds: builds}} }
	all := []*series{of(runs.Build{Program: "commit a", Machine: "one"})}
	if got := provenance(all); got != "Made by commit a. one" {
		t.Errorf("provenance %q", got)
	}
	all = append(all, of(runs.Build{Program: "commit a", Machine: "one"},
		runs.Build{Iteration: 7, Program: "commit b", Machine: "two"}), of())
	const want = "**Made by several programs**, whose results may differ in more than the page says: 1 table by " +
		"commit a. one; 1 table by commit a. one, commit b. two; 1 table by a program that kept no record"
	if got := provenance(all); got != want {
		t.Errorf("provenance %q, want %q", got, want)
	}
}

// Runs that differ in the seed alone are one variant, others have one each, which names the difference. A reference has
// a row for each of its labels on the runs' tasks, as many rows as the runs of its algorithm, and a colour of its own.
func TestReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(name, settings string, returns ...float64) string {
		table := "iteration,steps,return_mean,step_norm,seconds_updating\n"
		for i, x := range returns {
			table += fmt.Sprintf("%d,%d,%g,1,1\n", i, 10*(i+1), x)
		}
		path := filepath.Join(dir, name)
		write(t, filepath.Join(path, "config.yaml"), "env: Hopper-v2\nalgorithm: trpo\npreset: paper\n"+settings)
		write(t, filepath.Join(path, "progress.csv"), strings.ReplaceAll(table, "NaN", ""))
		return path
	}
	first := run("a", "estimator: mc\nseed: 1\nactors: 1\n", 5, 7, 9)
	second := run("b", "estimator: mc\nseed: 2\nactors: 2\n", 5, 3, 5, 100)
	other := run("c", "estimator: mc\nseed: 1\ngamma: 0.8\n", 1, 2, math.NaN())
	write(t, filepath.Join(dir, "authors.csv"),
		"task,algorithm,label,seed,iteration,return\nHopper-v2,trpo,UAPG,7,1,3\nB,trpo,MC,7,1,99\n"+
			"Hopper-v2,trpo,UAPG,7,2,5\n"+
			"Hopper-v2,trpo,another,8,1,4\nHopper-v2,trpo,another,8,2,4\nHopper-v2,trpo,another,8,3,4\n"+
			"Hopper-v2,trpo,another,8,4,99\nHopper-v2,npg,MC,7,1,5\n")
	write(t, filepath.Join(dir, "ours.csv"), "task,algorithm,label,seed,steps,return\n"+
		"Hopper-v2,trpo,PPO,0,10,3\nHopper-v2,trpo,PPO,0,20,4\n")
	out := filepath.Join(dir, "out")
	mustStudy(t, "report", "--last", "2", "--reference", filepath.Join(dir, "authors.csv"), "--reference",
		"baselines="+filepath.Join(dir, "ours.csv"),
		"--out", out, first, second, other)
	contains(t, read(t, out, pageName), "| Hopper-v2, trpo | MC | 6 | 5.67 | 8 (1), 4 (2) | 3 | 30 |",
		"| Hopper-v2, trpo | MC gamma=0.8 | 2 | 1.5 | 2 (1) | 3 | 30 |",
		"| Hopper-v2, trpo | UAPG, authors | 4 | 4 | 4 (7) | 2 |", "| another, authors | 4 | 4 | 4 (8) | 3 |",
		"| PPO, baselines | 3.5 | 3.5 | 3.5 (0) | 2 | 20 |")
	for _, name := range []string{"report", "steps"} {
		pictures(t, filepath.Join(out, name))
	}
	cmd, printed := newCommand(), new(bytes.Buffer)
	cmd.SetOut(printed)
	cmd.SetArgs([]string{"report", "--json", "--last", "2", "--out", out, first, second, other})
	var tables map[string][]map[string]any
	if err := errors.Join(cmd.ExecuteContext(t.Context()), json.Unmarshal(printed.Bytes(), &tables)); err != nil {
		t.Fatal(err, printed)
	}
	if row := tables["finals"][0]; len(tables) != 1 || row["task"] != "Hopper-v2" || row["final"] != 6.0 {
		t.Errorf("--json prints %v", tables)
	}
	write(t, filepath.Join(dir, "empty", "config.yaml"), "env: Hopper-v2\n")
	write(t, filepath.Join(dir, "empty", "progress.csv"), "iteration,steps,return_mean,step_norm,seconds_updating\n")
	for want, arguments := range map[string][]string{
		"is a run of the same name": {first, other, first},
		`has no column "task"`:      {"--reference", filepath.Join(first, "progress.csv"), first},
		"--reference: open": {"--reference", "x=" + filepath.Join(dir, "none.csv"),
			first},
		"progress.csv has no finished iteration":            {filepath.Join(dir, "empty")},
		"it is no run's directory":                          {filepath.Join(dir, "none")},
		"--last -1: at least one iteration is needed":       {"--last", "-1", first},
		"name the run directories to compare, such as runs": {},
	} {
		if err := study(t, append([]string{"report", "--out", out}, arguments...)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("report %v: %v, want %q", arguments, err, want)
		}
	}
}

func TestReadSeries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.csv")
	write(t, path, "task,steps,return_mean\nA,1,\nB,2,5\nA,3,7\n")
	all, err := readSeries(path, []string{"name=task"}, "return_mean")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(all), all[0].labels, all[0].columns,
		all[1].columns); got != "2 map[name:A] map[return_mean:[NaN 7]] map[return_mean:[5]]" {
		t.Error(got)
	}
	write(t, path, "noise\nx\n")
	for want, wanted := range map[string]string{"table.csv:2: noise": "noise", `has no column "steps"`: "steps"} {
		if _, err := readColumns(path, wanted); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
}
