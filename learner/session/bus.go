package session

import (
	"context"
	"log/slog"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// connector connects to the run's NATS server under a name for its log.
type connector func(name string) (*bus.Conn, error)

// Bus is the NATS server between learner and actors, in this process or elsewhere.
type Bus struct {
	url           string
	connect       connector
	stop          func()
	slowConsumers func() int // closed so far by a server in this process
}

// URL returns the address at which actors reach the bus.
func (b *Bus) URL() string { return b.url }

// Withdraw removes the policy of a leased run that has ended from the server's memory.
func (b *Bus) Withdraw(ctx context.Context, run string, epoch uint64) error {
	conn, err := b.connect("learner")
	if err != nil {
		return err
	}
	defer conn.Close()
	return collect.Withdraw(ctx, conn, run, epoch)
}

// Close stops the server, if it is in this process.
func (b *Bus) Close() { b.stop() }

// OpenBus returns the NATS server that the settings name, or one that it starts in this process.
func OpenBus(ctx context.Context, settings *config.Machine, log *slog.Logger, metrics *observe.Learner) (*Bus, error) {
	identity, auth, err := loadCredentials(settings, log, metrics)
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
	server, err := natsserver.Start(natsserver.Config{Host: host, Port: port, Log: log, Auth: auth})
	if err != nil && settings.Listen == config.AutoListen {
		server, err = natsserver.Start(natsserver.Config{Host: host, Log: log, Auth: auth})
	}
	if err != nil {
		return nil, err
	}
	command := commandline.Sibling("actor") + " --nats " + server.URL()
	if auth != nil {
		command += " --credentials DIR"
	}
	log.Info("actors can join", "command", command)
	connect := func(name string) (*bus.Conn, error) {
		return server.Connect(bus.ConnConfig{Name: name, Log: log, Identity: identity})
	}
	return &Bus{url: server.URL(), connect: connect, stop: server.Close, slowConsumers: server.SlowConsumers}, nil
}

// loadCredentials returns the learner's identity and the authorization of a server in this process. Both are nil
// without credentials in the settings.
func loadCredentials(settings *config.Machine, log *slog.Logger, metrics *observe.Learner) (
	*bus.Identity, *bus.ServerAuth, error,
) {
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
	if metrics != nil {
		metrics.WatchCertificate(own.Expires)
	}
	if settings.NATS != "" {
		return own.Identity(), nil, nil
	}
	auth, err := own.ServerAuth()
	return own.Identity(), auth, err
}
