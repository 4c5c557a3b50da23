package commandline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one of the command line, for Execute. It returns nil for nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Execute runs a program's command until it ends, and ends the process with 1 if it fails, 2 if its flags or arguments
// are refused, and 130 if the user interrupts it. The first SIGINT or SIGTERM cancels the command's context; a second
// one kills the process.
func Execute(cmd *cobra.Command) {
	parsed := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := cmd.ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", cmd.Name(), err)
		if !parsed || errors.As(err, new(usageError)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}
