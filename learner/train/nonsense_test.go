package train_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
)

// spoiled is a collector one of whose batches has an episode of finite nonsense, unless it is replayed.
type spoiled struct {
	train.Collector
	batch    uint64
	spoil    func(*proto.Episode)
	order    collect.Order // the last one
	replayed int
}

func (c *spoiled) Collect(ctx context.Context, order collect.Order) (*collect.Batch, error) {
	p := *order.Policy
	p.Params = slices.Clone(p.Params)
	order.Policy, c.order = &p, order
	c.order.Streams = slices.Clone(order.Streams)
	batch, err := c.Collector.Collect(ctx, order)
	if err == nil && p.Batch == c.batch {
		c.spoil(batch.Episodes[len(batch.Episodes)/2])
	}
	return batch, err
}

func (c *spoiled) replay(ctx context.Context, _ *collect.Batch) (*collect.Batch, error) {
	c.replayed++
	return c.Collector.Collect(ctx, c.order)
}

// nonsense is finite, and no update can be made from it.
var nonsense = map[string]func(*proto.Episode){
	"rewards": func(e *proto.Episode) {
		for i := range e.Rewards {
			e.Rewards[i] = 1e307
		}
	},
	"actions": func(e *proto.Episode) {
		for i := range e.Actions {
			e.Actions[i] = 3e38
		}
	},
}

// An update that fails because of an episode that an actor made up is made again without it, and the run is the one that
// never had it. If the replay is the same batch, the run ends with the update's error.
func TestUpdateIsMadeAgain(t *testing.T) {
	again := 0
	for what, spoil := range nonsense {
		forEachMethod(t, func(t *testing.T, s *config.Settings) {
			want := trainSerially(t, s)
			c, got := &spoiled{Collector: newSerial(t, s), batch: 2, spoil: spoil}, new(journal)
			r := newRun(t, s, c, got)
			r.Replay = c.replay
			r.Start(1)
			err := r.Train(t.Context())
			if c.replayed == 0 { // nonsense that an update survives is for audits to find
				t.Skip("the update does not fail: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			again++
			requireEqual(t, what, got, want)

			got = new(journal)
			r = newRun(t, s, c, got)
			r.Replay = func(context.Context, *collect.Batch) (*collect.Batch, error) { return nil, nil }
			r.Start(1)
			if err = r.Train(t.Context()); err == nil || len(got.rows) != 1 {
				t.Errorf("an update that fails again: %v after %d iterations", err, len(got.rows))
			}
		})
	}
	if again == 0 {
		t.Error("no update fails: the test shows nothing")
	}
	t.Log(fmt.Sprint(again, " updates were made again"))
}
