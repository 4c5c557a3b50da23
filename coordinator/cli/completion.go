package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
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

// namesOf returns a completion by the names in a list.
func namesOf[T any](list func(*client.Client, context.Context) ([]T, error), name func(*T) string) completion {
	return func(ctx context.Context, c *client.Client) (names []string, err error) {
		all, err := list(c, ctx)
		for i := range all {
			names = append(names, name(&all[i]))
		}
		return names, err
	}
}

var (
	experimentNames = namesOf((*client.Client).Experiments, func(e *client.Experiment) string { return e.Spec.Name })
	nodeNames       = namesOf((*client.Client).Nodes, func(n *client.Node) string { return n.ID })
	runNames        = namesOf(func(c *client.Client, ctx context.Context) ([]registry.Run, error) {
		runs, err := c.Runs(ctx, client.Query{})
		return runs.Runs, err
	}, func(r *registry.Run) string { return r.Name })
	learnerNames = namesOf(func(c *client.Client, ctx context.Context) ([]client.Learner, error) {
		seen, err := c.Seen(ctx)
		return seen.Seen, err
	}, func(l *client.Learner) string { return l.Name })
)

func bothNames(ctx context.Context, c *client.Client) ([]string, error) {
	experiments, err := experimentNames(ctx, c)
	if err != nil {
		return nil, err
	}
	runs, err := runNames(ctx, c)
	return append(experiments, runs...), err
}
