// Package dashboard implements `learner dashboard` and `learner play`, which serve the pages of package web for the
// runs in a directory or a bucket.
package dashboard

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/web"
	"github.com/dbqpg/dbqpg/learner/play"
)

// Command is `learner dashboard`.
func Command() *cobra.Command {
	var machine config.Machine
	cmd := &cobra.Command{
		Use:   "dashboard DIR|s3://bucket/prefix",
		Short: "Show runs in a browser",
		Long: `Serves pages that show the runs in a directory, such as runs, or in a bucket of workers'
checkpoints: their curves, grouped by any setting, and the details of each. Runs in training
grow. The pages only read, and only this machine can open them unless --http and
--insecure-listen say otherwise (docs/dashboard.md).`,
		Example: `  learner dashboard runs
  learner dashboard s3://bucket/prefix --http 127.0.0.1:8081`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := open(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("dashboard: %w", err)
			}
			return serve(cmd, &machine, source, "")
		},
	}
	addHTTP(cmd, &machine)
	return cmd
}

// open returns the runs in a directory or a bucket, which must exist.
func open(ctx context.Context, name string) (*web.Directory, error) {
	runs, err := store.OpenExisting(ctx, name)
	if err != nil {
		return nil, err
	}
	return web.NewDirectory(runs), nil
}

// addHTTP adds the flags --http and --insecure-listen.
func addHTTP(cmd *cobra.Command, machine *config.Machine) {
	cmd.Flags().StringVar(&machine.HTTP, "http", observe.AutoListen,
		"host:port to serve on; auto is 127.0.0.1:8080, or a free port if that one is in use")
	cmd.Flags().BoolVar(&machine.InsecureListen, "insecure-listen", false, "let --http accept other machines")
}

// serve serves the pages of a source until the command is interrupted, and logs the address of a page.
func serve(cmd *cobra.Command, machine *config.Machine, source *web.Directory, page string) error {
	if err := machine.CheckPages(); err != nil {
		return err
	}
	log, err := observe.NewLogger(cmd.ErrOrStderr(), observe.Text, "info")
	if err != nil {
		return err
	}
	go func() { _, _ = source.Runs(cmd.Context()) }() // the first scan, before anybody asks
	process := observe.NewProcess("dashboard")
	process.Watch(func() error { return nil }, nil)
	live := play.New(log)
	defer live.Close()
	pages := web.Handler(web.Config{Source: source, Live: live.Handler(source), Log: log})
	stop, err := process.Start(observe.Config{Listen: machine.HTTP, Pages: pages, Page: page, Log: log})
	if err != nil {
		return err
	}
	defer stop()
	<-cmd.Context().Done()
	return nil
}
