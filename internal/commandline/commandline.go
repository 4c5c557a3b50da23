// Package commandline contains what the programs' command lines have in common.
package commandline

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
)

// Explain adds a suggestion to an error about an unknown flag. It is for cobra's
// SetFlagErrorFunc.
func Explain(err error, flags []string) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	meant, _ := nearest.Name(unknown.GetSpecifiedName(), flags)
	return fmt.Errorf("%w; did you mean --%s?", err, meant)
}
