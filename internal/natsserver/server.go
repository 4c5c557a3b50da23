// Package natsserver runs a NATS server in this process.
package natsserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/dbqpg/dbqpg/internal/scratch"
	"github.com/dbqpg/dbqpg/proto/bus"
)

const (
	// serverPayload is the largest message that an embedded server accepts. Only a policy with
	// very wide layers is larger than a stock server's 1 MiB.
	serverPayload = 8 << 20
	// serverMemory bounds the embedded server's store.
	serverMemory = 256 << 20
	// serverConnections bounds the connections to an embedded server; an actor has one.
	serverConnections = 4096
	// startTimeout is how long an embedded server may take to come up; 30 ms is usual.
	startTimeout = 10 * time.Second
)

// Config is the configuration of a server. The zero value is a free port of
// 127.0.0.1.
type Config struct {
	// Host is the address to listen on; "" is 127.0.0.1. 0.0.0.0 lets other machines in.
	Host string
	// Port is the port to listen on; 0 picks a free one.
	Port int
	// Connections bounds their number; 0 means 4096.
	Connections int
	// Log records the server's warnings; nil means slog.Default.
	Log *slog.Logger
	// Auth holds the admitted users; nil admits everybody, without TLS.
	Auth *bus.ServerAuth
}

// Server is a NATS server in this process.
type Server struct {
	nats  *server.Server
	login []nats.Option      // of connections in this process
	store *scratch.Directory // which the server requires but leaves empty
	log   *slog.Logger
}

// Start starts a server and returns once it accepts connections.
func Start(config Config) (*Server, error) {
	if config.Host == "" {
		config.Host = "127.0.0.1"
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if err := checkFree(config); err != nil {
		return nil, err
	}
	store, err := scratch.New("nats")
	if err != nil {
		return nil, fmt.Errorf("a directory for the NATS server: %w", err)
	}
	s := &Server{store: store, log: config.Log}
	options := newOptions(config, store.Path)
	if config.Auth != nil {
		s.login, err = authorize(options, config.Auth)
	}
	if err == nil {
		s.nats, err = server.NewServer(options)
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("start the NATS server on %s: %w", address(config), err)
	}
	return s, nil
}

func address(config Config) string {
	return net.JoinHostPort(config.Host, strconv.Itoa(config.Port))
}

// checkFree distinguishes a port in use from other failures to start, and adds advice.
func checkFree(config Config) error {
	listener, err := net.Listen("tcp", address(config))
	if err != nil {
		return fmt.Errorf("cannot listen on %s (choose another port, or 0 for a free one): %w", address(config), err)
	}
	return listener.Close()
}

func newOptions(config Config, store string) *server.Options {
	port := config.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return &server.Options{
		ServerName:         "dbqpg",
		Host:               config.Host,
		Port:               port,
		NoSigs:             true,
		MaxConn:            cmp.Or(config.Connections, serverConnections),
		MaxPayload:         serverPayload,
		JetStream:          true,
		JetStreamMaxMemory: serverMemory,
		JetStreamMaxStore:  1 << 20,
		StoreDir:           store,
	}
}

// authorize has the server admit the users of auth by their certificates. Connections in this process have none: they
// log in as auth.User, by the returned options, with a key that never leaves the process.
func authorize(o *server.Options, auth *bus.ServerAuth) ([]nats.Option, error) {
	if err := o.ProcessConfigString(auth.Accounts); err != nil {
		return nil, fmt.Errorf("accounts of the NATS server: %w", err)
	}
	o.TLS, o.TLSVerify, o.TLSMap, o.TLSConfig = true, true, true, auth.TLS
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	for _, u := range o.Users {
		if u.Username == auth.User {
			o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: public, Account: u.Account, Permissions: u.Permissions})
		}
	}
	return []nats.Option{nats.Nkey(public, pair.Sign)}, nil
}

// start runs the server until it accepts connections.
func (s *Server) start() error {
	log := &serverLog{log: s.log}
	s.nats.SetLoggerV2(log, false, false, false)
	go s.nats.Start()
	if s.nats.ReadyForConnections(startTimeout) {
		return nil
	}
	if reason := log.fatal.Load(); reason != nil {
		return errors.New(*reason)
	}
	return fmt.Errorf("not ready after %v", startTimeout)
}

// URL returns the address for clients in other processes.
func (s *Server) URL() string { return s.nats.ClientURL() }

// SlowConsumers counts the connections that the server has closed because they did not keep up.
func (s *Server) SlowConsumers() int { return int(s.nats.NumSlowConsumers()) }

// Connect connects to the server in-process, without a socket and without TLS.
func (s *Server) Connect(config bus.ConnConfig) (*bus.Conn, error) {
	return bus.ConnectInProcess(s.nats, config, s.login...)
}

// Close stops the server and waits until it has shut down.
func (s *Server) Close() {
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	if err := s.store.Close(); err != nil {
		s.log.Warn("cannot remove the NATS server's directory", "error", err)
	}
}

// serverLog forwards a server's warnings and errors, and keeps the one that prevents it
// from starting.
type serverLog struct {
	log   *slog.Logger
	fatal atomic.Pointer[string]
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}
func (l *serverLog) Warnf(format string, args ...any) {
	l.log.Warn("NATS server", "message", fmt.Sprintf(format, args...))
}

func (l *serverLog) Errorf(format string, args ...any) {
	l.log.Error("NATS server", "message", fmt.Sprintf(format, args...))
}

func (l *serverLog) Fatalf(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	l.fatal.Store(&reason)
}
