// Package commandline is shared by the programs' command lines.
package commandline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
)

// kinds describes the values of pflag's own types of flags, whose errors quote the function that failed.
var kinds = map[string]string{
	"int": "a whole number", "uint64": "a whole number from 0", "float64": "a number", "bool": "true or false",
	"duration": "a duration such as 30s or 5m", "intSlice": "whole numbers, separated by commas",
	"uintSlice": "whole numbers from 0, separated by commas",
}

// Explain suggests a flag for an unknown one, and the form of a value for one that cannot be parsed. It is for cobra's
// SetFlagErrorFunc.
func Explain(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		kind := invalid.GetFlag().Value.Type()
		if what, ok := kinds[kind]; ok && (kind == "duration" || strings.Contains(err.Error(), "strconv.")) {
			return fmt.Errorf("--%s %s: must be %s", invalid.GetFlag().Name, invalid.GetValue(), what)
		}
	}
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant, _ := nearest.Name(unknown.GetSpecifiedName(), names)
	return fmt.Errorf("%w; did you mean --%s?", err, meant)
}

// Group is some of a command's flags under a heading.
type Group struct {
	Title string
	Flags []string
}

// width is the width to which the help of flags is wrapped.
const width = 110

// GroupFlags makes the usage of cmd, but not of its subcommands, list its flags in groups, and no others.
func GroupFlags(cmd *cobra.Command, groups func() []Group) {
	usage := cmd.UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		if c != cmd {
			return usage(c)
		}
		hide := func(hidden bool) { c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = hidden }) }
		hide(true)
		err := usage(c)
		hide(false)
		for _, group := range groups() {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			flags.SortFlags = false
			for _, name := range group.Flags {
				flags.AddFlag(c.Flags().Lookup(name))
			}
			fmt.Fprintf(c.OutOrStderr(), "\n%s:\n%s", group.Title, flags.FlagUsagesWrapped(width))
		}
		return err
	})
}
