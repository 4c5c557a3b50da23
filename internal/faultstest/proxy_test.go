package faultstest

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/proto/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Through a proxy that repeats each message once, each arrives twice; requests are answered whatever it does.
func TestProxy(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	server, err := natsserver.Start(natsserver.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	p := NewProxy(t, server.URL(), Rand(Seed(t), 0), 1, 0.5, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	asker, err := bus.Connect(ctx, p.URL(), bus.ConnConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(asker.Close)
	direct, err := bus.Connect(ctx, server.URL(), bus.ConnConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
	const questions = 100
	var arrived atomic.Int64
	all := make(chan struct{})
	if _, err := direct.Subscribe("question", func(m bus.Message) {
		if arrived.Add(1) == 2*questions {
			close(all)
		}
		m.Respond(m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	if err := direct.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range questions {
		answer, err := asker.Request(ctx, "question", fmt.Append(nil, i))
		if err != nil || string(answer) != fmt.Sprint(i) {
			t.Fatalf("%d: %q, %v", i, answer, err)
		}
	}
	select {
	case <-all:
	case <-ctx.Done():
	}
	if n := arrived.Load(); n != 2*questions || p.Repeated.Load() < 2*questions || p.Delayed.Load() == 0 {
		t.Errorf("%d questions arrived, of %d asked; %v", n, questions, p)
	}
}
