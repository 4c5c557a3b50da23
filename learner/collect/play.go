package collect

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/dbqpg/dbqpg/internal/rollout"
)

// withReplayer calls do with a replayer, on a thread of its own, as the engine's threads are.
func (c *Collector) withReplayer(do func(*rollout.Replayer)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	replayer := rollout.NewReplayer(c.config.NewEnv)
	do(replayer)
	if err := replayer.Close(); err != nil {
		c.config.Log.Warn("close an environment", "error", err)
	}
}

// play plays the learner's tickets, one at a time, until Close.
func (c *Collector) play() {
	closing := func() bool {
		select {
		case <-c.closing:
			return true
		default:
			return false
		}
	}
	c.withReplayer(func(replayer *rollout.Replayer) {
		for {
			select {
			case <-c.closing:
				return
			case <-c.playing:
			}
			for c.playNext(replayer, closing) {
			}
		}
	})
}

// playNext plays a ticket, and reports whether there was one.
func (c *Collector) playNext(replayer *rollout.Replayer, stop func() bool) bool {
	c.mu.Lock()
	next := c.dispatcher.nextReplay(time.Now())
	c.mu.Unlock()
	if next == nil || stop() {
		return false
	}
	data, err := replayer.Replay(next.of.policy(), next.ticket, next.start, stop)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dispatcher.settle(next, data, err, time.Now())
	c.announceNews()
	return true
}

// Replay plays a batch again, without actors, and shuts out those whose episodes differ. It returns the learner's own
// batch, nil if that is the same. It is for the goroutine of Collect, and for the last batch.
func (c *Collector) Replay(ctx context.Context, b *Batch) (own *Batch, err error) {
	if c.config.NewEnv == nil {
		return nil, errors.New("the learner has no environment to replay the batch in")
	}
	c.withReplayer(func(replayer *rollout.Replayer) { own, err = c.replay(ctx, replayer, b) })
	return own, err
}

func (c *Collector) replay(ctx context.Context, replayer *rollout.Replayer, b *Batch) (*Batch, error) {
	of, now, same := b.of, time.Now(), true
	own := &iteration{ledger: NewLedger(of.ledger.first, of.ledger.minSteps, of.ledger.lengths, of.ledger.lease)}
	if s := of.segments; s != nil {
		own.segments = &segments{s.steps, s.before, make([]Stream, len(s.after))}
	}
	for !own.ledger.Complete() {
		t, _ := own.ledger.Take(now, true)
		r := of.replay(t)
		data, err := replayer.Replay(of.policy(), t, r.start, func() bool { return ctx.Err() != nil })
		if err != nil {
			return nil, err
		}
		episodes, after, err := own.decode(&c.config, data, t)
		if err != nil {
			return nil, err
		}
		own.enter(learner, t, episodes, after, now)
		c.mu.Lock()
		same = c.dispatcher.compare(of, t, episodes, after) && same
		c.mu.Unlock()
	}
	if same {
		return nil, nil
	}
	return own.batch(b.Stats), nil
}
