package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// PlayCommand is `learner play`.
func PlayCommand() *cobra.Command {
	var which string
	var machine config.Machine
	cmd := &cobra.Command{
		Use:   "play RUN",
		Short: "Watch a policy play in a browser",
		Long: `Serves the page on which a run's policy plays its task, and prints its address. There the
robot can be followed, slowed down, stopped and pushed, and policies compared (docs/dashboard.md).
It plays the episodes of learner evaluate. A run is its directory or s3://bucket/prefix/RUN; a
run in training plays its newest policy with --checkpoint newest.`,
		Example: `  learner play runs/Swimmer-v5/trpo-mc-s1
  learner play runs/Swimmer-v5/trpo-mc-s1 --checkpoint newest`,
		Args: runs.Argument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if filepath.Ext(args[0]) == ".safetensors" {
				return errors.New("play: name the checkpoint's run, and choose the checkpoint with --checkpoint")
			}
			source, err := open(cmd.Context(), strings.TrimRight(args[0], "/"))
			if err != nil {
				return fmt.Errorf("play: %w", err)
			}
			found, err := source.Runs(cmd.Context())
			switch {
			case err != nil:
				return fmt.Errorf("play: %w", err)
			case len(found) == 0:
				return fmt.Errorf("play: %s is no run: it has no config.yaml", args[0])
			case len(found) > 1:
				return fmt.Errorf("play: %s has %d runs: name one, or see them all with learner dashboard",
					args[0], len(found))
			}
			which = cmp.Or(which, runs.BestCheckpoint)
			if _, err := runs.OpenCheckpoint(cmd.Context(), args[0], which); err != nil {
				return fmt.Errorf("play: %w", err)
			}
			page := url.Values{"tab": {"watch"}, "checkpoint": {which}}.Encode()
			return serve(cmd, &machine, source, "#/run/"+(&url.URL{Path: found[0].Name}).EscapedPath()+"?"+page)
		},
	}
	cmd.Flags().SortFlags = false
	runs.Flag(cmd.Flags(), &which)
	addHTTP(cmd, &machine)
	return cmd
}
