// Command coordinator keeps track of experiments: which runs there are, which learner has which, and how far
// each has got. It runs as one, three or five processes, any minority of which may be lost.
package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/coordinator/cli"
	"github.com/dbqpg/dbqpg/coordinator/serve"
	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/nearest"
)

func main() { commandline.Execute(newCommand()) }

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Keep track of experiments, their runs and the learners that train them",
		Long: `Keep track of experiments, their runs and the learners that train them.

One, three or five processes, each "coordinator serve" with its own data directory, keep
the same records: three survive the loss of any one, five the loss of any two. The other
commands ask any of them; give its URL with --coordinator or in DBQPG_COORDINATOR.`,
		Example: `  coordinator serve --data-dir data
  coordinator submit sweep.yaml
  coordinator list
  coordinator watch swimmer`,
		Version:       commandline.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(serve.Command(), credentials.Command())
	cmd.AddCommand(cli.Commands()...)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return commandline.Explain(cmd.Flags(), err) })
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	meant, _ := nearest.Name(name, names)
	return fmt.Errorf("unknown command %q; did you mean %s?", name, meant)
}
