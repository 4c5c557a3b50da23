package serve

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/observe"
)

// watch keeps a node's metrics up to date.
func watch(m *observe.Coordinator, node *raftnode.Node, answers *api) {
	ready := func() error {
		if node.Leader().ID == "" {
			return errors.New("no leader is known")
		}
		return nil
	}
	m.Watch(ready, func() {
		leader, status := node.Leader().ID, node.Status()
		set(m.LeaderKnown, leader != "")
		set(m.Leader, leader == node.ID())
		m.Term.Set(float64(status.Term))
		m.CommitIndex.Set(float64(status.Committed))
		m.AppliedIndex.Set(float64(status.Applied))
		node.View(func(s *registry.State) { count(m, s, answers.learnersIn(s).Seen) })
	})
}

// count sets the metrics that count runs and learners.
func count(m *observe.Coordinator, s *registry.State, seen []client.Learner) {
	runs := map[registry.RunState]int{}
	for i := range s.Runs {
		runs[s.Runs[i].State]++
	}
	for _, state := range registry.States {
		m.Runs.WithLabelValues(string(state)).Set(float64(runs[state]))
	}
	learners, actors := 0, 0
	for _, v := range seen {
		if !v.Silent {
			learners, actors = learners+1, actors+v.Slots
		}
	}
	m.Learners.Set(float64(learners))
	m.Actors.Set(float64(actors))
}

func set(g prometheus.Gauge, on bool) {
	g.Set(0)
	if on {
		g.Set(1)
	}
}
