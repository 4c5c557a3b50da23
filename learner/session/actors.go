package session

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/actor/rollout"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// connector connects to the run's NATS server under a name for its log.
type connector func(name string) (*bus.Conn, error)

// Bus is the NATS server between learner and actors, in this process or elsewhere.
type Bus struct {
	url           string
	connect       connector
	stop          func()
	slowConsumers func() int // cut by a server in this process so far
}

// URL is where actors reach the bus.
func (b *Bus) URL() string { return b.url }

// Close stops the server, if it is in this process.
func (b *Bus) Close() { b.stop() }

// OpenBus returns the NATS server that the settings name, or one that it starts in this process.
func OpenBus(ctx context.Context, settings *config.Settings, log *slog.Logger) (*Bus, error) {
	identity, auth, err := loadCredentials(settings, log)
	if err != nil {
		return nil, err
	}
	if settings.NATS != "" {
		connect := func(name string) (*bus.Conn, error) {
			return bus.Connect(ctx, settings.NATS, bus.ConnConfig{Name: name, Log: log, Identity: identity})
		}
		return &Bus{url: settings.NATS, connect: connect, stop: func() {}, slowConsumers: func() int { return 0 }}, nil
	}
	host, port, err := settings.ListenAddress()
	if err != nil {
		return nil, err
	}
	server, err := bus.StartServer(bus.ServerConfig{Host: host, Port: port, Log: log, Auth: auth})
	if err != nil && settings.Listen == config.AutoListen {
		server, err = bus.StartServer(bus.ServerConfig{Host: host, Log: log, Auth: auth})
	}
	if err != nil {
		return nil, err
	}
	command := "go run ./actor --nats " + server.URL()
	if auth != nil {
		command += " --credentials DIR"
	}
	log.Info("actors can join", "command", command)
	connect := func(name string) (*bus.Conn, error) {
		return server.Connect(bus.ConnConfig{Name: name, Log: log, Identity: identity})
	}
	return &Bus{url: server.URL(), connect: connect, stop: server.Close, slowConsumers: server.SlowConsumers}, nil
}

// loadCredentials returns how the learner shows who it is, and whom a server in this process lets in. Both are nil where
// the settings name no credentials.
func loadCredentials(settings *config.Settings, log *slog.Logger) (*bus.Identity, *bus.ServerAuth, error) {
	if settings.Credentials == "" {
		return nil, nil, nil
	}
	own, err := credentials.Load(settings.Credentials, log)
	if err != nil {
		return nil, nil, err
	}
	if err := own.Require(proto.RoleLearner); err != nil {
		return nil, nil, err
	}
	if settings.NATS != "" {
		return own.Identity(), nil, nil
	}
	auth, err := own.ServerAuth()
	return own.Identity(), auth, err
}

// local are the actors in this process.
type local struct {
	slots   int // config.AutoActors: one a core; 0: none
	run     string
	connect connector
	log     *slog.Logger
	watched *observe.Actor // nil: nobody watches
}

// beside runs body beside the actors; the end of one ends the other.
func (l local) beside(ctx context.Context, body func(context.Context) error) error {
	slots := l.slots
	if slots == config.AutoActors {
		slots = device.Cores()
	}
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
			Conn: conn, Run: l.run, Slots: slots, NewEnv: tasks.New, Engine: tasks.Engine(), Log: l.log, Watched: l.watched,
		})
	})
	group.Go(func() error {
		defer done()
		return body(ctx)
	})
	return group.Wait()
}

// Sampling says what Sample collects.
type Sampling struct {
	Task   sim.Spec
	Seed   uint64 // of all episodes' random streams, together with the iteration and the ticket
	Actors int    // local ones; config.AutoActors: one a core
}

// Sample calls body with a collector and local actors that play its tickets, over a NATS server of their own, so that
// batches of whatever policies can be collected as in training.
func Sample(ctx context.Context, s Sampling, body func(context.Context, *collect.Collector) error) error {
	const run = "sampling"
	log := slog.New(slog.DiscardHandler)
	server, err := bus.StartServer(bus.ServerConfig{Log: log})
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
	collector, err := collect.New(ctx, conn, collect.Config{Run: run, Epoch: 1, Seed: s.Seed, Task: s.Task, Log: log})
	if err != nil {
		return err
	}
	defer collector.Close()
	return local{slots: s.Actors, run: run, connect: connect, log: log}.beside(ctx, func(ctx context.Context) error {
		return body(ctx, collector)
	})
}
