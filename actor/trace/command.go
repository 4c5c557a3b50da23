package trace

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// Command returns the command line `trace --env TASK --from FILE --out FILE`.
func Command() *cobra.Command {
	var name, from, out string
	command := &cobra.Command{
		Use:   "trace",
		Short: "Replay recorded actions in a task",
		Long: `Replay recorded actions in a task, to compare it with another implementation.

The input is an npz file with init_qpos, init_qvel and actions (T x action). The output has these arrays and the
resulting observations (T+1 x observation), rewards (T) and terminated (T).`,
		Example: "  actor trace --env Ant-v5 --from trace.npz --out mine.npz",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return replayFile(name, from, out)
		},
	}
	flags := command.Flags()
	flags.StringVar(&name, "env", "", "task, e.g. Ant-v5")
	flags.StringVar(&from, "from", "", "trace file to replay (npz)")
	flags.StringVar(&out, "out", "", "file to write (npz)")
	for _, required := range []string{"env", "from", "out"} {
		if err := command.MarkFlagRequired(required); err != nil {
			panic(err) // the flag is not defined above
		}
	}
	return command
}

func replayFile(name, from, out string) error {
	env, err := tasks.New(name)
	if err != nil {
		return err
	}
	defer env.Close()
	recorded, err := npz.ReadFile(from)
	if err != nil {
		return err
	}
	replayed, err := Replay(env, recorded)
	if err != nil {
		return fmt.Errorf("replay %s in %s: %w", from, name, err)
	}
	return npz.WriteFile(out, replayed)
}
