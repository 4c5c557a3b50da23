package record

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Default is the film in a model folder.
var Default = Film{Episodes: 1, Seed: evaluate.DefaultSeed, Width: 480, Height: 480}

// Command is `learner record`.
func Command() *cobra.Command {
	var which, out string
	f := Default
	cmd := &cobra.Command{
		Use:   "record RUN|CHECKPOINT --out FILE.mp4",
		Short: "Film a trained policy",
		Long: `Plays the policy of a run's checkpoint with the mean action, and films it with MuJoCo's
renderer. The episodes are the first ones of learner evaluate. It needs ffmpeg, and EGL or
OSMesa (MUJOCO_GL=osmesa takes OSMesa where there are both), but no display.`,
		Example: "  learner record runs/Swimmer-v5/trpo-mc-s1 --out replay.mp4",
		Args:    runs.Argument,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case out == "":
				return errors.New("record: say where to with --out FILE.mp4")
			case f.Episodes < 1:
				return fmt.Errorf("--episodes %d: must be at least 1", f.Episodes)
			case !validSide(f.Width) || !validSide(f.Height):
				return fmt.Errorf("--width %d, --height %d: must be even, from 16 to 4096", f.Width, f.Height)
			}
			c, err := runs.OpenCheckpoint(cmd.Context(), args[0], which)
			if err != nil {
				return err
			}
			episodes, err := Record(cmd.Context(), c, f, out)
			if err != nil {
				return fmt.Errorf("record: %w", err)
			}
			for i, e := range episodes {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: episode %d of %s, iteration %d: return %.2f, %d steps\n",
					out, i, c.Task(), c.State.Iteration, e.Return, e.Length)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&out, "out", "", "MP4 file")
	runs.Flag(flags, &which)
	flags.IntVar(&f.Episodes, "episodes", f.Episodes, "to film")
	flags.Uint64Var(&f.Seed, "seed", f.Seed, "of the episodes, as of learner evaluate")
	flags.IntVar(&f.Width, "width", f.Width, "pixels")
	flags.IntVar(&f.Height, "height", f.Height, "pixels")
	return cmd
}

// validSide reports whether a video can be that many pixels wide or high.
func validSide(pixels int) bool { return pixels >= 16 && pixels <= 4096 && pixels%2 == 0 }
