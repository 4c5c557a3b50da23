package serve

import (
	"context"
	"log/slog"
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
	quiet := slog.New(slog.DiscardHandler)
	addresses := []string{processtest.Address(t), processtest.Address(t), processtest.Address(t)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{ID: "n1", DataDir: t.TempDir(), HTTP: addresses[0], Raft: addresses[1], Metrics: addresses[2], Log: quiet})
	}()
	web := &http.Client{Timeout: 30 * time.Second}
	defer web.CloseIdleConnections()
	for ready := false; !ready; {
		response, err := web.Get("http://" + addresses[0] + "/readyz")
		if err == nil {
			ready = response.StatusCode == http.StatusOK
			response.Body.Close()
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond): // it tells of its readiness by no event
		}
	}
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
