package evaluate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/external"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// maxEpisodes bounds the results in memory.
const maxEpisodes = 1_000_000

// Report is the output of `learner evaluate --json`.
type Report struct {
	Checkpoint string `json:"checkpoint"` // where it was found
	SHA256     string `json:"sha256"`     // of its file, which differs with the run's duration
	Policy     string `json:"policy"`     // SHA-256 of its policy
	Task       string `json:"task"`
	Iteration  uint64 `json:"iteration"` // of the checkpoint
	Steps      uint64 `json:"steps"`     // of training before it
	Engine     string `json:"engine"`    // the results are the same bits on machines of the same engine
	Seed       uint64 `json:"seed"`
	Episodes   int    `json:"episodes"` // with each action
	Mean       played `json:"mean_action"`
	Sampled    played `json:"sampled_action"`
}

// played is a summary with its returns and lengths, by the episodes' indices.
type played struct {
	Summary
	Returns []float64 `json:"returns"`
	Lengths []int     `json:"lengths"`
}

// Command is `learner evaluate`.
func Command() *cobra.Command {
	var which, task string
	var asJSON bool
	e := Episodes{Seed: DefaultSeed, Count: 100}
	cmd := &cobra.Command{
		Use:   "evaluate RUN|CHECKPOINT",
		Short: "Measure the return of a trained policy",
		Long: `Plays the policy of a run's checkpoint with the mean action, without noise, and as often with actions
sampled as in training. A run is its directory or s3://bucket/prefix/RUN, a checkpoint a file *.safetensors in
either. Episode i starts from the same state for every policy and each kind of action; training
never sees these episodes, whatever its seed. The results are the same on every machine of an
engine class, for any number of cores (docs/evaluate.md).`,
		Example: `  learner evaluate runs/Swimmer-v5/trpo-mc-s1
  learner evaluate runs/Swimmer-v5/trpo-mc-s1 --checkpoint newest --episodes 1000 --json`,
		Args: runs.Argument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := CheckCount(e.Count); err != nil {
				return err
			}
			c, err := runs.OpenCheckpoint(cmd.Context(), args[0], which)
			if err != nil {
				return err
			}
			files, err := TaskFiles(task)
			if err != nil {
				return err
			}
			r, err := report(cmd.Context(), c, e, files...)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	runs.Flag(flags, &which)
	flags.StringVar(&task, "task", "", "task file, if the run had one (docs/environments.md)")
	flags.IntVar(&e.Count, "episodes", e.Count, "episodes with each kind of action")
	flags.Uint64Var(&e.Seed, "seed", e.Seed, "evaluation seed; evaluations during training use the default")
	flags.BoolVar(&asJSON, "json", false, "print JSON, with each episode's return and length")
	return cmd
}

// TaskFiles returns the task file that a command's flag --task names, none for "".
func TaskFiles(path string) ([]*external.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := external.Load(path)
	if err != nil {
		return nil, fmt.Errorf("--task: %w", err)
	}
	return []*external.File{f}, nil
}

// CheckCount returns an error unless an evaluation can have that many episodes.
func CheckCount(episodes int) error {
	if episodes < 2 || episodes > maxEpisodes {
		return fmt.Errorf("--episodes %d: must be from 2, for a standard error, to %d", episodes, maxEpisodes)
	}
	return nil
}

// Of returns e, which has the count, the seed and the action, completed with a checkpoint's policy and its task, which
// may be a task file's.
func Of(c *runs.Checkpoint, e Episodes, files ...*external.File) (Episodes, error) {
	p, err := c.Policy()
	if err != nil {
		return e, err
	}
	spec, err := c.Spec()
	if err != nil {
		return e, err
	}
	environments, err := external.New(tasks.New, files...)
	if err != nil {
		return e, err
	}
	e.NewEnv = func() (sim.Env, error) { return environments.New(spec.Name) }
	e.Shape, e.Params, e.Normalizer, e.Workers = p.Shape, p.Params, p.Normalizer, device.Cores()
	return e, nil
}

// report plays a checkpoint's episodes with both actions.
func report(ctx context.Context, c *runs.Checkpoint, e Episodes, files ...*external.File) (*Report, error) {
	p, err := c.Policy()
	if err != nil {
		return nil, err
	}
	if e, err = Of(c, e, files...); err != nil {
		return nil, err
	}
	mean, sampled, err := Both(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Location, err)
	}
	return &Report{
		Checkpoint: c.Location, SHA256: c.SHA256, Policy: p.SHA256(), Task: c.Task(),
		Iteration: c.State.Iteration, Steps: c.State.Steps,
		Engine: tasks.Engine(), Seed: e.Seed, Episodes: e.Count, Mean: describe(mean), Sampled: describe(sampled),
	}, nil
}

func describe(episodes []Episode) played {
	p := played{Summary: Summarize(episodes)}
	for _, e := range episodes {
		p.Returns, p.Lengths = append(p.Returns, e.Return), append(p.Lengths, e.Length)
	}
	return p
}

// print writes the report as a table.
func (r *Report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s: %s, iteration %d, policy %.12s\n%d episodes of seed %d with each kind of action\n\n",
		r.Checkpoint, r.Task, r.Iteration, r.Policy, r.Episodes, r.Seed)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\tmean action\tsampled action\t\n")
	for _, row := range []struct {
		name  string
		value func(Summary) any
	}{
		{"mean return", func(s Summary) any { return decimals(s.Mean) }},
		{"its standard error", func(s Summary) any { return decimals(s.StandardError) }},
		{"interquartile mean", func(s Summary) any { return decimals(s.IQM) }},
		{"minimum", func(s Summary) any { return decimals(s.Min) }},
		{"maximum", func(s Summary) any { return decimals(s.Max) }},
		{"mean length", func(s Summary) any { return decimals(s.LengthMean) }},
		{"shortest", func(s Summary) any { return s.LengthMin }},
		{"longest", func(s Summary) any { return s.LengthMax }},
	} {
		fmt.Fprintf(table, "%s\t%v\t%v\t\n", row.name, row.value(r.Mean.Summary), row.value(r.Sampled.Summary))
	}
	return table.Flush()
}

// decimals shows two digits after the point.
func decimals(x float64) string { return fmt.Sprintf("%.2f", x) }
