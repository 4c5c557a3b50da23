package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dbqpg/dbqpg/proto"
)

const (
	// pingInterval and maxPings: a server that is silent for 15 s is considered lost.
	pingInterval = 5 * time.Second
	maxPings     = 2
	// reconnectWait is the pause between attempts to reach a server, reconnectJitter a random addition
	// that keeps a thousand actors from reconnecting at the same instant.
	reconnectWait   = 500 * time.Millisecond
	reconnectJitter = 500 * time.Millisecond
	// pendingMessages and pendingBytes bound the queue of a slow handler; beyond them messages are dropped.
	pendingMessages = 1 << 16
	pendingBytes    = 64 << 20
)

var (
	// ErrNoResponder reports a request that nobody is subscribed to answer.
	ErrNoResponder = errors.New("nobody answers")
	// ErrDisconnected reports a request while there is no connection to the server.
	ErrDisconnected = errors.New("not connected to the NATS server")
	// ErrClosed reports the use of a connection after Close, or after the server refused it permanently.
	ErrClosed = errors.New("the connection is closed")
)

// ConnConfig holds a connection's settings.
type ConnConfig struct {
	// Name identifies the client to the server's operator.
	Name string
	// Log records lost connections and dropped messages; nil means slog.Default.
	Log *slog.Logger
	// Identity authenticates the client; nil is for a server without authentication.
	Identity *Identity
}

// Conn is a connection that reconnects, for as long as it takes, when the server goes
// away; subscriptions survive. It is safe for concurrent use.
type Conn struct {
	nats      *nats.Conn
	member    string // name, or proto.Anyone
	log       *slog.Logger
	connected chan struct{} // closed at the first connection
	closed    chan struct{} // closed at the end of the last connection
	once      sync.Once     // closes connected
	storeAPI  string        // prefix of the subjects of the server's store; "" is the default

	mu            sync.Mutex
	subscriptions []*nats.Subscription
	reconnected   []func()
	session       context.Context // done once the current connection is lost
	endSession    context.CancelFunc
}

// Connect connects to the server at address, "nats://host:port". It keeps trying until ctx is done;
// an address that can never work, or a refused login, fails at once.
func Connect(ctx context.Context, address string, config ConnConfig) (*Conn, error) {
	shown, err := checkAddress(address)
	if err != nil {
		return nil, err
	}
	options := []nats.Option{nats.RetryOnFailedConnect(true)}
	if config.Identity != nil { // never without TLS, whatever the address's scheme
		options = append(options, nats.Secure(config.Identity.TLS))
	}
	c, err := dial(address, shown, config, options...)
	if err != nil {
		return nil, err
	}
	// If a server that appears later turns out to be unusable, nats.go calls no handler.
	look := time.NewTicker(reconnectWait)
	defer look.Stop()
	for err == nil {
		select {
		case <-c.connected:
			return c, nil
		case <-c.closed:
			err = cmp.Or(c.nats.LastError(), nats.ErrConnectionClosed)
		case <-look.C:
			if last := c.nats.LastError(); final(last) {
				err = last
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.nats.Close()
	return nil, fmt.Errorf("connect to %s: %w", shown, advise(err, config.Identity))
}

// ConnectInProcess connects to a server in this process, without a socket and without TLS. It logs in as the options
// say.
func ConnectInProcess(server nats.InProcessConnProvider, config ConnConfig, login ...nats.Option) (*Conn, error) {
	return dial(nats.DefaultURL, "this process", config, append(login, nats.InProcessServer(server))...)
}

// checkAddress checks the address of a server, or several separated by commas, and returns it
// without passwords, for display.
func checkAddress(address string) (shown string, err error) {
	var parts []string
	for part := range strings.SplitSeq(address, ",") {
		if !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil:
			return "", fmt.Errorf("that is not the address of a NATS server, like nats://127.0.0.1:4222: %w",
				errors.Unwrap(err))
		case u.Hostname() == "":
			return "", fmt.Errorf("%q names no host: give the address of a NATS server, like nats://127.0.0.1:4222",
				u.Redacted())
		case u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss":
			return "", fmt.Errorf("%q has scheme %q: the address of a NATS server begins with nats://, tls://, "+
				"ws:// or wss://", u.Redacted(), u.Scheme)
		}
		parts = append(parts, u.Redacted())
	}
	return strings.Join(parts, ","), nil
}

// dial connects to address, which logs and errors refer to as shown.
func dial(address, shown string, config ConnConfig, extra ...nats.Option) (*Conn, error) {
	c := &Conn{
		member: proto.Anyone, log: config.Log,
		connected: make(chan struct{}), closed: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	c.session, c.endSession = context.WithCancel(context.Background())
	failures := &Rarely{Interval: 10 * time.Second}
	options := []nats.Option{
		nats.Name(config.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
		// What cannot be sent now fails now, and its sender retries.
		nats.ReconnectBufSize(-1),
		nats.ConnectHandler(func(*nats.Conn) { c.markConnected() }),
		nats.ReconnectHandler(func(nc *nats.Conn) { c.restored(nc) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if failures.Now() {
				c.log.Warn("no NATS server answers; trying again", "url", shown, "error", err)
			}
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.disconnected()
			if err != nil {
				c.log.Warn("lost the NATS server; trying again", "url", shown, "error", err)
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(c.failed),
	}
	if config.Identity != nil {
		c.member = config.Identity.Member
		options = append(options, nats.CustomInboxPrefix(inbox(c.member)))
		if config.Identity.Role == proto.RoleActor {
			c.storeAPI = outsideStore
		}
	}
	connection, err := nats.Connect(address, append(options, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", shown, advise(err, config.Identity))
	}
	c.nats = connection
	if connection.IsConnected() {
		c.markConnected()
	}
	return c, nil
}

func (c *Conn) markConnected() { c.once.Do(func() { close(c.connected) }) }

// restored calls the OnReconnect functions.
func (c *Conn) restored(nc *nats.Conn) {
	c.markConnected()
	c.log.Info("connected to the NATS server again", "url", nc.ConnectedUrlRedacted())
	c.mu.Lock()
	callbacks := c.reconnected
	c.mu.Unlock()
	for _, callback := range callbacks {
		callback()
	}
}

// disconnected ends the requests that can no longer be answered.
func (c *Conn) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endSession()
	c.session, c.endSession = context.WithCancel(context.Background())
}

// failed logs errors outside of requests, dropped messages above all.
func (c *Conn) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub == nil {
		c.log.Warn("NATS", "error", err)
		return
	}
	dropped, _ := sub.Dropped()
	c.log.Warn("NATS", "error", err, "subject", sub.Subject, "dropped", dropped)
}

// OnReconnect registers f to be called each time a lost connection is re-established. f must not block.
func (c *Conn) OnReconnect(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconnected = append(c.reconnected, f)
}

// URL returns the server's address, or "" while disconnected.
func (c *Conn) URL() string { return c.nats.ConnectedUrlRedacted() }

// Connected returns ErrDisconnected unless there is a connection to the server.
func (c *Conn) Connected() error {
	if c.URL() == "" {
		return ErrDisconnected
	}
	return nil
}

// Member returns the name by which the server knows the client, or [proto.Anyone].
func (c *Conn) Member() string { return c.member }

// MaxPayload returns the size of the largest message that the server accepts, in bytes.
func (c *Conn) MaxPayload() int { return int(c.nats.MaxPayload()) }

// Flush waits until the server has processed everything sent, subscriptions included.
func (c *Conn) Flush(ctx context.Context) error {
	if err := c.nats.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", translate(err))
	}
	return nil
}

// Close ends the connection and waits until its callbacks have run.
func (c *Conn) Close() {
	c.nats.Close()
	<-c.closed
	c.disconnected()
}

// Rarely lets one event through per interval, so that a lasting state does not fill a log. It is safe
// for concurrent use.
type Rarely struct {
	// Interval is the minimum time between two events.
	Interval time.Duration

	mu   sync.Mutex
	last time.Time
}

// Now reports whether it is time for another event.
func (r *Rarely) Now() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.last.IsZero() && time.Since(r.last) < r.Interval {
		return false
	}
	r.last = time.Now()
	return true
}
