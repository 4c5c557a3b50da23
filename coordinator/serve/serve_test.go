package serve

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A node that is stopped leaves nothing behind, whatever requests it was serving.
func TestRunEnds(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	addresses := []string{processtest.Address(t), processtest.Address(t), processtest.Address(t)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Config{ID: "n1", DataDir: t.TempDir(), HTTP: addresses[0], Raft: addresses[1], Metrics: addresses[2], Log: quiet})
	}()
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for ready := false; !ready; {
		response, err := client.Get("http://" + addresses[0] + "/readyz")
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
		if response, err := client.Get("http://" + addresses[0] + "/v1/runs?after=1000000&wait=20s"); err == nil {
			response.Body.Close()
		}
	}()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-waiting
}
