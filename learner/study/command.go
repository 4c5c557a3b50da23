package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
)

// prepare gives a study's command what all have: the flag --out, and what it runs, by the quick settings if --quick is
// given. It returns the command's flags, for its own.
func prepare(cmd *cobra.Command, run func(*cobra.Command) error, quick map[string]string) *pflag.FlagSet {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := apply(cmd, quick); err != nil {
			return err
		}
		return run(cmd)
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.String("out", "", "directory to write to")
	return flags
}

// apply sets the flags that make a study quick, unless the user has set them; settings of --set come before the user's.
func apply(cmd *cobra.Command, values map[string]string) error {
	if quick, err := cmd.Flags().GetBool("quick"); err != nil || !quick {
		return nil
	}
	for name, value := range values {
		if list, ok := cmd.Flags().Lookup(name).Value.(pflag.SliceValue); ok && name == "set" {
			if setting, _, _ := strings.Cut(value, "="); !slices.ContainsFunc(list.GetSlice(), func(own string) bool { return strings.HasPrefix(own, setting+"=") }) {
				if err := list.Replace(append([]string{value}, list.GetSlice()...)); err != nil {
					return fmt.Errorf("--quick sets --%s %s: %w", name, value, err)
				}
			}
			continue
		}
		if flag := cmd.Flags().Lookup(name); !flag.Changed {
			if err := flag.Value.Set(value); err != nil {
				return fmt.Errorf("--quick sets --%s %s: %w", name, value, err)
			}
		}
	}
	return nil
}

// Command returns `learner study` with its subcommands.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "study NAME --out DIR",
		Short: "Repeat the paper's experiments and write pages of results",
		Long: `Each study repeats one of the paper's experiments. It writes its numbers as CSV, a figure as SVG
and PNG, and a page, DIR/README.md, which tells how to repeat the study and whether the numbers
support the paper's claims. The page includes your own remarks from DIR/notes.md. A study that
was killed continues where it stopped when it is started again.

With --quick each study takes about two minutes on two cores: a demonstration, not evidence.`,
		Args: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			if len(args) == 0 {
				return fmt.Errorf("study: say which: %s", nearest.List(names))
			}
			meant, _ := nearest.Name(args[0], names)
			return fmt.Errorf("study: there is no %q; did you mean %s?", args[0], meant)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has refused everything
	}
	cmd.FParseErrWhitelist.UnknownFlags = true // of a study that is misspelt
	cmd.AddCommand(qualityCommand(), integralsCommand())
	cmd.AddCommand(bestCommand(), calibrationCommand())
	for _, c := range comparisons {
		cmd.AddCommand(c.command())
		if c.name == "curves" {
			cmd.AddCommand(wallClockCommand())
		}
	}
	return cmd
}
