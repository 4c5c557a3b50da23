package export

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/record"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/sim/external"
)

// Command is `learner export`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "export RUN|CHECKPOINT --to DIR",
		Short: "Write a trained policy as ONNX, safetensors and a Hugging Face model folder",
		Long: `Writes the policy of a run's checkpoint to a folder (docs/files.md):

  policy.onnx         observation (batch, o) to mean action (batch, a), float32; the normaliser and
                      the clipping of observations and actions are in the graph
  policy.safetensors  the parameters by name: policy.0.weight, policy.0.bias, ..., log_std, ...
  config.json         the policy's shape and the settings that it was trained with
  examples.npz        observations and the actions computed here, to check a deployment with
  results.json        the returns of an evaluation with the mean action
  README.md           a model card with the metadata that the Hugging Face Hub indexes
  replay.mp4          an episode, where ffmpeg and EGL or OSMesa are installed (learner record)

Upload it with: huggingface-cli upload NAME DIR`,
		Example: `  learner export runs/Swimmer-v5/trpo-mc-s1 --to swimmer
  learner export runs/Swimmer-v5/trpo-mc-s1 --checkpoint newest --episodes 1000 --to swimmer --force`,
		Args: runs.Argument,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.directory, "to", "", "folder, created if necessary")
	runs.Flag(flags, &o.which)
	flags.StringVar(&o.task, "task", "",
		"task file, if the run had one (docs/environments.md); the evaluation plays it")
	flags.IntVar(&o.episodes, "episodes", 100, "of the evaluation for the model card; 0: none")
	flags.BoolVar(&o.replay, "replay", true, "film an episode")
	flags.BoolVar(&o.force, "force", false, "replace files that are in the folder")
	return cmd
}

// options are the command's flags.
type options struct {
	directory, which, task string
	episodes               int
	replay, force          bool
}

// run exports the policy of a run or checkpoint.
func (o *options) run(cmd *cobra.Command, name string) error {
	if o.directory == "" {
		return errors.New("export: say where to with --to DIR")
	}
	if o.episodes != 0 {
		if err := evaluate.CheckCount(o.episodes); err != nil {
			return err
		}
	}
	taskFiles, err := evaluate.TaskFiles(o.task)
	if err != nil {
		return err
	}
	c, err := runs.OpenCheckpoint(cmd.Context(), name, o.which)
	if err != nil {
		return err
	}
	p, err := newPolicy(c)
	if err != nil {
		return err
	}
	r, err := o.evaluate(cmd.Context(), c, taskFiles)
	if err != nil {
		return err
	}
	all, err := files(p, r)
	if err != nil {
		return err
	}
	if err := write(o.directory, all, o.force); err != nil {
		return err
	}
	if o.replay {
		_, err := record.Record(cmd.Context(), c, record.Default, filepath.Join(o.directory, replayName))
		if errors.Is(err, record.ErrUnavailable) {
			fmt.Fprintf(cmd.ErrOrStderr(), "without %s: %v\n", replayName, err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", replayName, err)
		}
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: %s of iteration %d (%s)\n", o.directory, c.Task(), c.State.Iteration, c.Location)
	if r != nil {
		fmt.Fprintf(out, "mean return of %d episodes with the mean action: %.2f +/- %.2f\n",
			r.Episodes, r.MeanReward, r.StdReward)
	}
	fmt.Fprintf(out, "upload it with: huggingface-cli upload %s %s\n", filepath.Base(o.directory), o.directory)
	return nil
}

// evaluate plays the model card's episodes with the mean action; it returns nil if there are to be none.
func (o *options) evaluate(ctx context.Context, c *runs.Checkpoint, taskFiles []*external.File) (*results, error) {
	if o.episodes == 0 {
		return nil, nil
	}
	e := evaluate.Episodes{Action: evaluate.Mean, Seed: evaluate.DefaultSeed, Count: o.episodes}
	e, err := evaluate.Of(c, e, taskFiles...)
	if err != nil {
		return nil, err
	}
	episodes, err := evaluate.Play(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Location, err)
	}
	return newResults(e.Seed, episodes, time.Now()), nil
}
