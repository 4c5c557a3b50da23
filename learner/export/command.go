package export

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/record"
	"github.com/dbqpg/dbqpg/learner/trained"
)

// Command is `learner export`.
func Command() *cobra.Command {
	var which, directory, task string
	var episodes int
	var force, replay bool
	cmd := &cobra.Command{
		Use:   "export RUN|CHECKPOINT --to DIR",
		Short: "Write a trained policy as ONNX, safetensors and a Hugging Face model folder",
		Long: `Writes the policy of a run's checkpoint to a folder (docs/policy-format.md):

  policy.onnx         observation (batch, o) to mean action (batch, a), float32; the normaliser and
                      the clipping of observations and actions are in the graph
  policy.safetensors  the parameters by name: policy.0.weight, policy.0.bias, ..., log_std, ...
  config.json         the policy's shape and the settings that it was trained with
  examples.npz        observations and the actions computed here, to check a deployment with
  results.json        the returns of an evaluation with the mean action
  README.md           a model card with the metadata that the Hugging Face Hub indexes
  replay.mp4          an episode, where ffmpeg and EGL or OSMesa are installed (learner record)

Upload it with: huggingface-cli upload NAME DIR`,
		Example: `  learner export runs/Swimmer-v2/npg-uapg-s1 --to swimmer
  learner export runs/Swimmer-v2/npg-uapg-s1 --checkpoint newest --episodes 1000 --to swimmer --force`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("export: name one run, such as runs/Swimmer-v2/npg-uapg-s1, or one checkpoint's file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if directory == "" {
				return errors.New("export: say where to with --to DIR")
			}
			if episodes != 0 {
				if err := evaluate.CheckCount(episodes); err != nil {
					return err
				}
			}
			taskFiles, err := evaluate.TaskFiles(task)
			if err != nil {
				return err
			}
			c, err := trained.Open(cmd.Context(), args[0], which)
			if err != nil {
				return err
			}
			p, err := newPolicy(c)
			if err != nil {
				return err
			}
			var r *results
			if episodes > 0 {
				report, err := evaluate.Checkpoint(cmd.Context(), c, evaluate.Episodes{Seed: evaluate.DefaultSeed, Count: episodes}, taskFiles...)
				if err != nil {
					return err
				}
				r = newResults(report, time.Now())
			}
			all, err := files(p, r)
			if err != nil {
				return err
			}
			if err := write(directory, all, force); err != nil {
				return err
			}
			if replay {
				_, err := record.Record(cmd.Context(), c, record.Default, filepath.Join(directory, replayName))
				if errors.Is(err, record.ErrUnavailable) {
					fmt.Fprintf(cmd.ErrOrStderr(), "without %s: %v\n", replayName, err)
				} else if err != nil {
					return fmt.Errorf("%s: %w", replayName, err)
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s of iteration %d (%s)\n", directory, c.Task(), c.State.Iteration, c.Location)
			if r != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "mean return of %d episodes with the mean action: %.2f +/- %.2f\n", r.Episodes, r.MeanReward, r.StdReward)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "upload it with: huggingface-cli upload %s %s\n", filepath.Base(directory), directory)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&directory, "to", "", "folder, created if necessary")
	flags.StringVar(&which, "checkpoint", "", "of a run: best, newest or an iteration's number (default best)")
	flags.StringVar(&task, "task", "", "task file, if the run had one (docs/environments.md); the evaluation plays it")
	flags.IntVar(&episodes, "episodes", 100, "of the evaluation for the model card; 0: none")
	flags.BoolVar(&replay, "replay", true, "film an episode")
	flags.BoolVar(&force, "force", false, "replace files that are in the folder")
	return cmd
}
