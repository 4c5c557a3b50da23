package study

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

const bestQuestion = `How does --preset best compare with the TRPO and PPO that people use, and how much of it is quadrature? UAPG and Monte
Carlo (MC) with the same settings and seeds, TRPO of sb3-contrib and PPO of Stable-Baselines3 with the settings of
rl-baselines3-zoo, on the same tasks.`

func bestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "best --out DIR [RUN...]",
		Short: "Compare runs with those of Stable-Baselines3, by samples and by time",
		Long: bestQuestion + `

Writes the page from the evaluations under DIR, tables of comma-separated values with the columns
task, algorithm, seed, steps, seconds, cpu_seconds and return: those of scripts/baselines/run.sh under
DIR/baselines, ours, with sampled_return, under DIR/data. First it copies the evaluations of the complete
runs that are named into DIR/data; without a name it rewrites the page alone. It trains nothing.`,
		Example: "  scripts/baselines/run.sh --seeds 1\n" +
			"  learner --env Hopper-v4\n" +
			"  learner study best --out docs/results/best runs/Hopper-v4/trpo-uapg-s1",
	}
	prepare(cmd, runBest, nil)
	cmd.Args = cobra.ArbitraryArgs
	return cmd
}

func runBest(cmd *cobra.Command) error {
	j, err := newJobOfRuns(cmd, (*job).publishEvaluations)
	if err != nil {
		return err
	}
	results, err := j.readEvaluations()
	if err != nil {
		return err
	}
	return results.report(j)
}

// baselineColumns are those of a table of evaluations, a row each. The times are of training alone, in seconds: by the clock
// on the wall, and of the processor. The return is that of mean actions.
var baselineColumns = []string{"task", "algorithm", "seed", "steps", "seconds", "cpu_seconds", "return"}

// evaluationColumns are those of ours.
var evaluationColumns = slices.Concat(baselineColumns, []string{"sampled_return"})

// newJobOfRuns returns the job of a study whose arguments are complete runs, of which it copies to data/ what its page needs.
func newJobOfRuns(cmd *cobra.Command, publish func(*job, *config.Settings) error) (*job, error) {
	j, err := newJob(cmd)
	if err != nil {
		return nil, err
	}
	trials, err := given("", cmd.Flags().Args())
	if err != nil {
		return nil, err
	}
	for _, run := range trials {
		complete, err := runs.Complete(run.settings)
		if err != nil || !complete {
			return nil, errors.Join(err, fmt.Errorf("%s is not complete: resume it first", run.settings.RunDir))
		}
		if err := publish(j, run.settings); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// labelOf names what a run's method is, and what it differs in from its preset.
func labelOf(s *config.Settings) string {
	return fmt.Sprintf("%s-%s-%s", s.Algorithm, s.Estimator, s.Variant())
}

// publishData writes a run's data to data/.
func (j *job) publishData(s *config.Settings, lines [][]string) error {
	return writeData(j.path("data", s.Env, fmt.Sprintf("%s-s%d", labelOf(s), s.Seed)), s, lines)
}

// publishEvaluations copies what the page needs of a run.
func (j *job) publishEvaluations(s *config.Settings) error {
	evaluations, err := readColumns(runs.Evaluations(s.RunDir), "iteration", "steps", "mean_action_return", "sampled_action_return")
	if err != nil {
		return fmt.Errorf("%w; train with --evaluate-every", err)
	}
	times, err := readColumns(runs.ProgressFile(s.RunDir), "seconds_sampling", "seconds_updating", "seconds_processor")
	if err != nil {
		return err
	}
	lines := [][]string{evaluationColumns}
	label := labelOf(s)
	seconds, processor, done := 0.0, 0.0, 0
	for i, iteration := range evaluations[0] {
		for ; done < int(iteration) && done < len(times[0]); done++ {
			seconds, processor = seconds+times[0][done]+times[1][done], processor+times[2][done]
		}
		lines = append(lines, []string{s.Env, label, fmt.Sprint(s.Seed), fmt.Sprintf("%.0f", evaluations[1][i]),
			short(seconds, otherDigits), short(processor, otherDigits), short(evaluations[2][i], returnDigits), short(evaluations[3][i], returnDigits)})
	}
	return j.publishData(s, lines)
}

// evaluated is a run of the page, an entry an evaluation.
type evaluated struct {
	task, algorithm string // the latter with what differs from the preset
	seed            uint64
	steps           []float64
	seconds, cpu    []float64 // of training so far
	returns         []float64 // mean, with mean actions
	sampled         []float64 // with sampled actions; empty for a baseline
}

// lineup is all runs of the page.
type lineup struct {
	runs []*evaluated // by task, algorithm and seed
	made []string     // what trained them
}

// readEvaluations reads all tables of evaluations.
func (j *job) readEvaluations() (*lineup, error) {
	r := new(lineup)
	for _, of := range []struct {
		directory string
		columns   []string
	}{{"data", evaluationColumns}, {"baselines", baselineColumns}} {
		paths, err := filepath.Glob(j.path(of.directory, "*", "*.csv"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if err := r.read(path, of.columns); err != nil {
				return nil, err
			}
		}
	}
	if len(r.runs) == 0 {
		return nil, fmt.Errorf("--out %s: there are no evaluations of the page's tasks in baselines/TASK/*.csv or data/TASK/*.csv, and no runs to take them from", j.out)
	}
	slices.SortFunc(r.runs, func(a, b *evaluated) int {
		return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.algorithm, b.algorithm), cmp.Compare(a.seed, b.seed))
	})
	return r, nil
}

// read adds the runs on the page's tasks of a table with these columns.
func (r *lineup) read(path string, columns []string) error {
	var run *evaluated
	err := readRows(path, columns, func(row []string) error {
		if !slices.ContainsFunc(bestTasks, func(t bestTask) bool { return t.name == row[0] }) {
			return nil // such as another version of one, whose runs are being made
		}
		seed, err := strconv.ParseUint(row[2], 10, 64)
		if err != nil {
			return fmt.Errorf("seed: %w", err)
		}
		if run == nil || run.task != row[0] || run.algorithm != row[1] || run.seed != seed {
			run = &evaluated{task: row[0], algorithm: row[1], seed: seed}
			if slices.ContainsFunc(r.runs, func(o *evaluated) bool { return o.task == run.task && o.algorithm == run.algorithm && o.seed == seed }) {
				return fmt.Errorf("%s on %s with seed %d is in another place already", run.algorithm, run.task, seed)
			}
			r.runs = append(r.runs, run)
		}
		for i, column := range []*[]float64{&run.steps, &run.seconds, &run.cpu, &run.returns, &run.sampled}[:len(columns)-3] {
			value, err := number(row[3+i])
			if err != nil {
				return fmt.Errorf("%s: %w", columns[3+i], err)
			}
			*column = append(*column, value)
		}
		n := len(run.steps)
		switch last := run.steps[n-1] - run.returns[n-1]; {
		case math.IsNaN(last) || math.IsInf(last, 0) || run.steps[0] < 0:
			return errors.New("the steps or the return are no number")
		case n > 1 && run.steps[n-1] <= run.steps[n-2]:
			return errors.New("steps do not increase")
		}
		return nil
	})
	if err != nil || run == nil {
		return err
	}
	made, err := madeBy(strings.TrimSuffix(path, ".csv") + ".yaml")
	if err == nil && made != "" && !slices.Contains(r.made, made) {
		r.made = append(r.made, made)
	}
	return err
}

// madeBy returns the programs in a run's record, if it has one, and the machine, the last of several.
func madeBy(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var r struct {
		Builds    []runs.Build
		Versions  map[string]string // of a baseline's packages
		Processor string
	}
	if err == nil {
		err = yaml.Unmarshal(text, &r)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Versions) == 0 {
		machine := ""
		if n := len(r.Builds); n > 0 {
			machine = ". " + r.Builds[n-1].Machine
		}
		return programs(r.Builds) + machine, nil
	}
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	return strings.Join(versions, ", ") + " on " + r.Processor, nil
}
