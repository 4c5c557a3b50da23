// Package dashboard is `learner dashboard`, which serves the pages of package web for the runs that lie in a directory or a bucket.
package dashboard

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/web"
	"github.com/dbqpg/dbqpg/learner/play"
)

// Command is `learner dashboard`.
func Command() *cobra.Command {
	var http string
	cmd := &cobra.Command{
		Use:   "dashboard DIR|s3://bucket/prefix",
		Short: "Show runs in a browser",
		Long: `Serves pages that show the runs in a directory, such as runs, or in a bucket of workers' checkpoints: their curves, grouped by
any setting, and all that is known of each. Runs that are being trained grow. The pages only read, and only this machine can
open them unless --http says otherwise (docs/dashboard.md).`,
		Example: `  learner dashboard runs
  learner dashboard s3://bucket/prefix --http 127.0.0.1:8081`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasPrefix(args[0], store.Scheme) {
				if _, err := os.Stat(args[0]); err != nil { // store.Open would make it
					return fmt.Errorf("dashboard: %w", err)
				}
			}
			runs, err := store.Open(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("dashboard: %w", err)
			}
			if err := observe.CheckListen("--http", http, false); err != nil {
				return err
			}
			log, err := observe.NewLogger(cmd.ErrOrStderr(), observe.Text, "info")
			if err != nil {
				return err
			}
			process := observe.NewProcess("dashboard")
			process.Watch(func() error { return nil }, nil)
			source, live := web.NewDirectory(runs), play.New(log)
			defer live.Close()
			pages := web.Handler(web.Config{Source: source, Live: live.Handler(source), Log: log})
			stop, err := process.Start(observe.Config{Listen: http, Pages: pages, Log: log})
			if err != nil {
				return err
			}
			defer stop()
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&http, "http", observe.AutoListen, "host:port to serve on, for whoever can reach it; auto is 127.0.0.1:8080, or a free port if that one is in use")
	return cmd
}
