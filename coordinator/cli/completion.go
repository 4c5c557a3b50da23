package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

// completion lists the names that a command's first argument may be.
type completion func(context.Context, *client.Client) ([]string, error)

// completionTimeout is how long a shell waits for names.
const completionTimeout = 2 * time.Second

// with returns the completion for cobra; nil completes file names. It says nothing of errors: the command will.
func (c completion) with(o *options) cobra.CompletionFunc {
	if c == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		asked, err := o.open(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer asked.Close()
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		names, _ := c(ctx, asked)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func experimentNames(ctx context.Context, c *client.Client) (names []string, err error) {
	experiments, err := c.Experiments(ctx)
	for _, e := range experiments {
		names = append(names, e.Spec.Name)
	}
	return names, err
}

func runNames(ctx context.Context, c *client.Client) (names []string, err error) {
	runs, err := c.Runs(ctx, client.Query{})
	if err != nil {
		return nil, err
	}
	for _, r := range runs.Runs {
		names = append(names, r.Name)
	}
	return names, nil
}

func bothNames(ctx context.Context, c *client.Client) ([]string, error) {
	experiments, err := experimentNames(ctx, c)
	if err != nil {
		return nil, err
	}
	runs, err := runNames(ctx, c)
	return slices.Concat(experiments, runs), err
}

func nodeNames(ctx context.Context, c *client.Client) (names []string, err error) {
	nodes, err := c.Nodes(ctx)
	for _, n := range nodes {
		names = append(names, n.ID)
	}
	return names, err
}

func learnerNames(ctx context.Context, c *client.Client) (names []string, err error) {
	seen, err := c.Seen(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range seen.Seen {
		names = append(names, l.Name)
	}
	return names, nil
}
