package session

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/external"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// localActors are the actors in this process.
type localActors struct {
	slots        int // config.AutoActors: one a core, or as many as a process has environments; 0: none
	environments *external.Environments
	run          string
	connect      connector
	log          *slog.Logger
	metrics      *observe.Actor // nil: none
}

// number returns how many actors there are.
func (l localActors) number() int {
	if l.slots == config.AutoActors {
		return l.environments.Slots(device.Cores())
	}
	return l.slots
}

// alongside runs body and the actors; when one ends, the other is stopped.
func (l localActors) alongside(ctx context.Context, body func(context.Context) error) error {
	slots := l.number()
	if slots == 0 {
		return body(ctx)
	}
	conn, err := l.connect("local actor")
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, done := context.WithCancel(ctx)
	defer done()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return rollout.Run(ctx, rollout.Config{
			Conn: conn, Run: l.run, Slots: slots, NewEnv: l.environments.New, Engine: tasks.Engine(),
			Log: l.log, Metrics: l.metrics,
		})
	})
	group.Go(func() error {
		defer done()
		return body(ctx)
	})
	return group.Wait()
}

// Sampling holds the settings of Sample.
type Sampling struct {
	Task   sim.Spec
	Seed   uint64 // of all episodes' random streams, together with the iteration and the ticket
	Actors int    // local ones; config.AutoActors: one a core
}

// Sample calls body with a collector of episodes by local actors, over a private NATS server. It collects batches of
// any policy as training does.
func Sample(ctx context.Context, s Sampling, body func(context.Context, *collect.Collector) error) error {
	const run = "sampling"
	log := slog.New(slog.DiscardHandler)
	server, err := natsserver.Start(natsserver.Config{Log: log})
	if err != nil {
		return err
	}
	defer server.Close()
	connect := func(name string) (*bus.Conn, error) { return server.Connect(bus.ConnConfig{Name: name, Log: log}) }
	conn, err := connect("sampler")
	if err != nil {
		return err
	}
	defer conn.Close()
	environments, err := external.New(tasks.New)
	if err != nil {
		return err
	}
	collector, err := collect.New(ctx, conn, collect.Config{
		Run: run, Epoch: 1, Seed: s.Seed, Task: s.Task, NewEnv: environments.New, Exact: true, Log: log,
	})
	if err != nil {
		return err
	}
	defer collector.Close()
	actors := localActors{slots: s.Actors, environments: environments, run: run, connect: connect, log: log}
	return actors.alongside(ctx, func(ctx context.Context) error { return body(ctx, collector) })
}
