package bus_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/proto/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = 30 * time.Second

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func startServer(t testing.TB, config natsserver.Config) *natsserver.Server {
	t.Helper()
	config.Log = slog.New(slog.DiscardHandler)
	s, err := natsserver.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, s *natsserver.Server) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(deadline(t), s.URL(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A server admits so many clients, and another one once there is room.
func TestConnections(t *testing.T) {
	s := startServer(t, natsserver.Config{Connections: 2})
	first, _ := connect(t, s), connect(t, s)
	if third, err := nats.Connect(s.URL()); err == nil { // it is told why, or finds the connection closed
		third.Close()
		t.Error("a third client is admitted")
	}
	first.Close()
	connect(t, s) // however often it tries
}

func quiet() bus.ConnConfig { return bus.ConnConfig{Log: slog.New(slog.DiscardHandler)} }

func echo(t testing.TB, c *bus.Conn) {
	t.Helper()
	_, err := c.Subscribe("echo", func(m bus.Message) {
		if err := m.Respond(m.Data); err != nil {
			t.Errorf("respond: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

func TestRequestOverSocketAndInProcess(t *testing.T) {
	server := startServer(t, natsserver.Config{})
	inside, err := server.Connect(quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inside.Close)
	echo(t, inside)
	for name, c := range map[string]*bus.Conn{"in process": inside, "socket": connect(t, server)} {
		large := bytes.Repeat([]byte("x"), c.MaxPayload()/2)
		got, err := c.Request(deadline(t), "echo", large)
		if err != nil || !bytes.Equal(got, large) {
			t.Errorf("%s: %d bytes back, %v", name, len(got), err)
		}
		if _, err := c.Request(deadline(t), "nobody", nil); !errors.Is(err, bus.ErrNoResponder) {
			t.Errorf("%s: a request to nobody: %v", name, err)
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = natsserver.Start(natsserver.Config{Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("a port in use: %v", err)
	}
}

func TestBadAddress(t *testing.T) {
	for _, address := range []string{
		"", "http://127.0.0.1:4222", "nats://", "nats://127.0.0.1:port", "nats://a,ftp://b",
	} {
		c, err := bus.Connect(deadline(t), address, quiet())
		if err == nil {
			c.Close()
		}
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("address %q is tried", address)
		}
	}
}

// Connect waits for a server that isn't there yet, says so, and stops when told.
func TestConnectBeforeServer(t *testing.T) {
	port := processtest.Port(t)
	warned := make(chan struct{})
	log := slog.New(slog.NewTextHandler(&signal{text: "no NATS server answers", seen: warned}, nil))
	ctx, cancel := context.WithCancel(deadline(t))
	result := make(chan error)
	url := "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	go func() {
		_, err := bus.Connect(ctx, url, bus.ConnConfig{Log: log})
		result <- err
	}()
	<-warned
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while connecting: %v", err)
	}
	go func() {
		c, err := bus.Connect(deadline(t), url, quiet())
		if err == nil {
			c.Close()
		}
		result <- err
	}()
	startServer(t, natsserver.Config{Port: port})
	if err := <-result; err != nil {
		t.Errorf("the server came, but: %v", err)
	}
}

// A password in the address is shown nowhere.
func TestPasswordIsNotShown(t *testing.T) {
	ctx, cancel := context.WithCancel(deadline(t))
	var shown bytes.Buffer
	warned := &signal{text: "no NATS server answers", seen: make(chan struct{})}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(&shown, warned), nil))
	result := make(chan error)
	go func() {
		_, err := bus.Connect(ctx, "nats://me:secret@127.0.0.1:1", bus.ConnConfig{Log: log})
		result <- err
	}()
	<-warned.seen
	cancel()
	if text := (<-result).Error() + shown.String(); strings.Contains(text, "secret") ||
		!strings.Contains(text, "me:xxxxx@") {
		t.Errorf("shown: %s", text)
	}
	for _, address := range []string{
		"ftp://me:secret@host", "nats://me:secret@", "nats://me:secret@host:port", "nats://me:secret@host\x00",
	} {
		if _, err := bus.Connect(ctx, address, quiet()); strings.Contains(err.Error(), "secret") {
			t.Errorf("shown: %v", err)
		}
	}
}

// signal closes seen when text is written.
type signal struct {
	text string
	seen chan struct{}
	once sync.Once
}

func (s *signal) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.once.Do(func() { close(s.seen) })
	}
	return len(p), nil
}

func TestStoreComparesAndSets(t *testing.T) {
	c := connect(t, startServer(t, natsserver.Config{}))
	store, err := c.Store("test")
	if err != nil {
		t.Fatal(err)
	}
	ctx := deadline(t)
	if _, _, err := store.Get(ctx, "Swimmer-v2/npg=1_x"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("a bucket that is not there: %v", err)
	}
	first, err := store.Put(ctx, "Swimmer-v2/npg=1_x", []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Get(ctx, "other"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("a key that is not there: %v", err)
	}
	for _, revision := range []uint64{0, first + 7} {
		if _, err := store.Put(ctx, "Swimmer-v2/npg=1_x", []byte("lost"), revision); !errors.Is(err, bus.ErrConflict) {
			t.Errorf("put at revision %d of %d: %v", revision, first, err)
		}
	}
	second, err := store.Put(ctx, "Swimmer-v2/npg=1_x", []byte("two"), first)
	if err != nil {
		t.Fatal(err)
	}
	if value, revision, err := store.Get(ctx, "Swimmer-v2/npg=1_x"); string(value) != "two" || revision != second ||
		err != nil {
		t.Errorf("got %q at revision %d, %v; want two at %d", value, revision, err, second)
	}
	if err := store.Delete(ctx, "Swimmer-v2/npg=1_x", first); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("delete at an earlier revision: %v", err)
	}
	if err := store.Delete(ctx, "Swimmer-v2/npg=1_x", second); err != nil {
		t.Error(err)
	}
	if _, _, err := store.Get(ctx, "Swimmer-v2/npg=1_x"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
	if _, err := store.Put(ctx, "Swimmer-v2/npg=1_x", []byte("three"), 0); err != nil {
		t.Errorf("put anew: %v", err)
	}
}

// After a restart, connections and subscriptions are back and the store is empty; what is sent meanwhile
// fails at once.
func TestServerRestart(t *testing.T) {
	port := processtest.Port(t)
	server := startServer(t, natsserver.Config{Port: port})
	c := connect(t, server)
	back := make(chan struct{}, 1)
	c.OnReconnect(func() { back <- struct{}{} })
	echo(t, c)
	store, err := c.Store("test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(deadline(t), "key", nil, 0); err != nil {
		t.Fatal(err)
	}
	asked, unanswered := make(chan struct{}), make(chan error)
	if _, err := c.Subscribe("silence", func(bus.Message) { close(asked) }); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := c.Request(deadline(t), "silence", nil)
		unanswered <- err
	}()
	<-asked
	server.Close()
	if err := <-unanswered; !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("a request whose connection is lost: %v", err)
	}
	for c.URL() != "" { // until the connection has noticed
		c.Request(deadline(t), "echo", nil)
	}
	if _, err := c.Request(deadline(t), "echo", nil); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("request without a server: %v", err)
	}
	startServer(t, natsserver.Config{Port: port})
	<-back
	if _, err := c.Request(deadline(t), "echo", nil); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if _, _, err := store.Get(deadline(t), "key"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("the store after the restart: %v", err)
	}
	if _, err := store.Put(deadline(t), "key", nil, 0); err != nil {
		t.Errorf("the store after the restart: %v", err)
	}
}

// A handler that stands still loses messages beyond the pending limit: Dropped says how many.
func TestDropped(t *testing.T) {
	server := startServer(t, natsserver.Config{})
	receiver, sender := connect(t, server), connect(t, server)
	release := make(chan struct{})
	received := make(chan int, 1000)
	_, err := receiver.Subscribe("flood", func(m bus.Message) {
		<-release
		received <- len(m.Data)
	})
	if err != nil {
		t.Fatal(err)
	}
	echo(t, receiver)
	megabyte := make([]byte, 1<<20)
	for range 100 {
		if err := sender.Publish("flood", megabyte); err != nil {
			t.Fatal(err)
		}
	}
	// What follows on the same connections arrives behind the flood.
	if _, err := sender.Request(deadline(t), "echo", nil); err != nil {
		t.Fatal(err)
	}
	dropped := receiver.Dropped()
	if dropped < 30 || dropped > 40 {
		t.Errorf("%d of 100 MB dropped with 64 MB pending", dropped)
	}
	close(release)
	for range 100 - dropped {
		<-received
	}
}

// Once a subscription is closed its handler does not run.
func TestSubscriptionClose(t *testing.T) {
	c := connect(t, startServer(t, natsserver.Config{}))
	var mu sync.Mutex
	closed := false
	sub, err := c.Subscribe("x", func(bus.Message) {
		mu.Lock()
		defer mu.Unlock()
		if closed {
			t.Error("the handler ran after Close")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		c.Publish("x", nil)
	}
	sub.Close()
	mu.Lock()
	closed = true
	mu.Unlock()
	if err := c.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkRequestInProcess(b *testing.B) {
	server := startServer(b, natsserver.Config{})
	c, err := server.Connect(quiet())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	echo(b, c)
	ctx := context.Background()
	for b.Loop() {
		if _, err := c.Request(ctx, "echo", nil); err != nil {
			b.Fatal(err)
		}
	}
}
