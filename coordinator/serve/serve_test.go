package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whoever sends or reads slowly is cut off, but not a client whose query waits as long as it may.
func TestServerLimits(t *testing.T) {
	s := (&Config{Log: slog.Default()}).newServer(t.Context(), nil)
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.IdleTimeout == 0 || s.WriteTimeout <= client.MaxWait || s.MaxHeaderBytes == 0 {
		t.Errorf("%+v", s)
	}
}

// A node that is stopped leaves nothing behind, whatever requests it was serving.
func TestRunEnds(t *testing.T) {
	addresses := []string{processtest.Address(t), processtest.Address(t), processtest.Address(t)}
	web := &http.Client{Timeout: 30 * time.Second}
	defer web.CloseIdleConnections()
	cancel, ended := runUntilReady(t, web, Config{ID: "n1", DataDir: t.TempDir(), HTTP: addresses[0], Raft: addresses[1], Metrics: addresses[2], Log: quiet})
	waiting := make(chan struct{})
	go func() { // a long poll is under way when it ends
		defer close(waiting)
		if response, err := web.Get("http://" + addresses[0] + "/v1/runs?after=1000000&wait=20s"); err == nil {
			response.Body.Close()
		}
	}()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-waiting
}

var quiet = slog.New(slog.DiscardHandler)

// runUntilReady runs a node, and waits until it answers.
func runUntilReady(t *testing.T, web *http.Client, c Config) (cancel func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- Run(ctx, c) }()
	for {
		response, err := web.Get("http://" + c.HTTP + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return cancel, end
			}
		}
		select {
		case err := <-end:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond): // it tells of its readiness by no event
		}
	}
}

// No more than so many strangers are admitted at a time: who comes after them is answered once they are cut off, for they say nothing.
func TestConnections(t *testing.T) {
	const most = 8
	web := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	address := processtest.Address(t)
	cancel, ended := runUntilReady(t, web, Config{ID: "n1", DataDir: t.TempDir(), HTTP: address, Raft: "127.0.0.1:0", Log: quiet, connections: most})
	var silent []net.Conn
	for range most {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	response, err := web.Get("http://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	cut := 0
	for _, conn := range silent {
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			cut++
		}
	}
	if cut == 0 {
		t.Errorf("an answer while %d strangers are connected, where %d may be", len(silent), most)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Connections that are kept for later requests make room for others.
func TestIdleConnections(t *testing.T) {
	const most = 8
	web := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	address := processtest.Address(t)
	cancel, ended := runUntilReady(t, web, Config{ID: "n1", DataDir: t.TempDir(), HTTP: address, Raft: "127.0.0.1:0", Log: quiet, connections: most})
	for range 2 * most {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || response.StatusCode != http.StatusOK {
			t.Fatal("not answered:", err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
