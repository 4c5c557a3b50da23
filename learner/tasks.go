package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/sim"
)

// goals are the returns that docs/results/best measures the time to, by task.
var goals = map[string]float64{"Ant-v5": 4000, "HalfCheetah-v5": 5000, "Hopper-v5": 3000, "Humanoid-v5": 5000,
	"Swimmer-v5": 340, "Walker2d-v5": 3000}

func tasksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tasks",
		Short: "List the built-in tasks",
		Long: `List the built-in tasks: the lengths of an observation and an action, an action's bounds, the time limit in
steps, and the return that counts as learned, where one is known (docs/results/best). Gymnasium's other
environments are tasks by their names where Python and dbqpg's package are installed (docs/environments.md).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, strings.Join([]string{"TASK", "OBSERVATION", "ACTION", "BOUNDS", "STEPS", "GOAL"}, "\t"))
			for _, t := range sim.Tasks() {
				goal := "-"
				if g, ok := goals[t.Name]; ok {
					goal = fmt.Sprint(g)
				}
				fmt.Fprintf(w, "%s\t%d\t%d\t±%v\t%d\t%s\n", t.Name, t.ObservationDim, t.ActionDim, t.High[0], t.TimeLimit, goal)
			}
			return w.Flush()
		},
	}
}
