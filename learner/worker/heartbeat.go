package worker

import (
	"context"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

// works notes on which run the worker works, for the heartbeats.
func (w *worker) works(run *string) {
	w.current.Store(run)
	w.tell()
}

// played notes how many actors have played a batch, for the heartbeats.
func (w *worker) played(actors int) {
	if before := w.actors.Swap(int64(actors)); before != int64(actors) {
		w.tell()
	}
}

// tell has a heartbeat sent.
func (w *worker) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// beat sends heartbeats to the coordinator, the last when ctx is done, to say that the worker leaves.
func (w *worker) beat(ctx context.Context) {
	ticker := time.NewTicker(client.HeartbeatEvery)
	defer ticker.Stop()
	for {
		beat := client.Heartbeat{Learner: w.name}
		if run := w.current.Load(); run != nil {
			beat.Run, beat.Slots = *run, int(w.actors.Load())
		}
		if err := w.coordinator.Heartbeat(ctx, beat); err != nil && ctx.Err() == nil {
			w.Log.Debug("no heartbeat", "error", err)
		}
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
			defer cancel()
			if err := w.coordinator.Heartbeat(ctx, client.Heartbeat{Learner: w.name, Gone: true}); err != nil {
				w.Log.Warn("the coordinator does not know that this worker leaves, and will call it silent",
					"error", err)
			}
			return
		case <-ticker.C:
		case <-w.news:
		}
	}
}
