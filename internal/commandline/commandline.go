// Package commandline contains what the programs' command lines have in common.
package commandline

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
)

// Explain adds to an error about an unknown flag which of a command's flags may have been
// meant. It is for cobra's SetFlagErrorFunc.
func Explain(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant, _ := nearest.Name(unknown.GetSpecifiedName(), names)
	return fmt.Errorf("%w; did you mean --%s?", err, meant)
}
