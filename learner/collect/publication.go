package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

// ErrSuperseded reports that another learner has taken over the run, so that this one must stop.
var ErrSuperseded = errors.New("another learner has taken over this run")

// errForeign reports that the run's key holds something else.
var errForeign = errors.New("the server has something else under the run's name: choose another name")

// hopeless reports whether retrying cannot help.
func hopeless(err error) bool {
	for _, final := range []error{ErrSuperseded, errForeign, bus.ErrNoStore, bus.ErrClosed} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// NextEpoch returns an epoch of at least atLeast that is above any in which a learner has published the run's policy on
// this server, or an error if that learner is still there.
func NextEpoch(ctx context.Context, conn *bus.Conn, run string, atLeast uint64) (uint64, error) {
	if err := proto.CheckRun(run); err != nil {
		return 0, err
	}
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		return 0, err
	}
	current, _, err := read(ctx, store, run)
	if err != nil {
		return 0, err
	}
	if current == nil {
		return max(atLeast, 1), nil
	}
	heard := make(chan struct{}, 1)
	s, err := conn.Subscribe(proto.SubjectsOf(run).Positions(), func(bus.Message) { signal(heard, struct{}{}) })
	if err != nil {
		return 0, err
	}
	defer s.Close()
	select {
	case <-heard:
		return 0, fmt.Errorf("another learner trains run %s on this server: stop that, "+
			"or give this run a name of its own with --run-dir", run)
	case <-time.After(2 * proto.AnnounceInterval):
		return max(atLeast, current.Epoch+1), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Withdraw removes the policy of a run that has ended from the server, unless it is of a later epoch.
func Withdraw(ctx context.Context, conn *bus.Conn, run string, epoch uint64) error {
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		return err
	}
	current, revision, err := read(ctx, store, run)
	if err != nil || current == nil || current.Epoch > epoch {
		return err
	}
	return store.Delete(ctx, run, revision)
}

// read returns the run's current policy, nil if there is none that this release understands, and its revision in the
// store.
func read(ctx context.Context, store *bus.Store, run string) (*proto.Policy, uint64, error) {
	data, revision, err := store.Get(ctx, run)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	current := new(proto.Policy)
	if err := proto.Unmarshal(data, current); errors.Is(err, proto.ErrOlder) {
		return nil, revision, nil // left by an earlier release: it is replaced
	} else if err != nil {
		return nil, 0, fmt.Errorf("run %s: %w: %w", run, errForeign, err)
	}
	return current, revision, nil
}

// retryInterval is the pause before a server that did not answer is asked again.
const retryInterval = 500 * time.Millisecond

// publish puts the policy into the store, retrying for as long as it takes.
func (c *Collector) publish(ctx context.Context, p *publication) (err error) {
	ctx, end := observe.Span(ctx, "publish")
	defer end(&err)
	for warned := false; ; warned = true {
		err := p.put(ctx)
		if err == nil || hopeless(err) {
			return err
		}
		if !warned && ctx.Err() == nil {
			c.config.Log.Warn("cannot publish the policy; retrying", "batch", p.position.Batch, "error", err)
		}
		if !pause.For(ctx, retryInterval) {
			return fmt.Errorf("publish the policy of batch %d: %w", p.position.Batch, errors.Join(ctx.Err(), err))
		}
	}
}

// assert makes sure that the store holds the policy and that no other learner has taken over. If the server does not
// answer, the next call tries again.
func (c *Collector) assert(ctx context.Context, p *publication) error {
	err := p.put(ctx)
	if hopeless(err) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		c.config.Log.Warn("cannot check the published policy; retrying", "error", err)
	}
	c.announce()
	return nil
}

// publication is an encoded policy to be made the run's current one.
type publication struct {
	store    *bus.Store
	run      string
	position proto.Position
	data     []byte
}

// newPublication encodes a policy after making sure that actors can play it and that the server accepts it.
func newPublication(store *bus.Store, p *proto.Policy, task sim.Spec, maxPayload int) (*publication, error) {
	shape := policy.ShapeOf(task, p.Hidden)
	normalizer := policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip}
	if _, err := policy.NewActor(shape, p.Params, normalizer); err != nil {
		return nil, fmt.Errorf("policy of batch %d: %w", p.Batch, err)
	}
	data, err := proto.Marshal(nil, p)
	if err != nil {
		return nil, err
	}
	if most := maxPayload - proto.ChunkMargin; len(data) > most {
		return nil, fmt.Errorf("policy of %d bytes, the NATS server takes %d: "+
			"make the hidden layers %v smaller or its max_payload larger",
			len(data), most, p.Hidden)
	}
	return &publication{store, p.Run, p.Position(), data}, nil
}

// put makes the policy the run's current one, if it isn't already. It uses compare-and-set, so that a newer
// learner's policy is never overwritten: then it returns ErrSuperseded.
func (p *publication) put(ctx context.Context) error {
	for {
		current, revision, err := read(ctx, p.store, p.run)
		if err != nil {
			return err
		}
		if current != nil {
			done, err := p.compare(current)
			if done || err != nil {
				return err
			}
		}
		_, err = p.store.Put(ctx, p.run, p.data, revision)
		if !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
}

// compare reports whether the current policy is already this one, or returns an error if it is newer.
func (p *publication) compare(current *proto.Policy) (same bool, err error) {
	at := current.Position()
	if at.Before(p.position) {
		return false, nil
	}
	if at == p.position {
		data, err := proto.Marshal(nil, current)
		if err != nil {
			return false, err
		}
		if bytes.Equal(data, p.data) {
			return true, nil
		}
	}
	return false, fmt.Errorf("%w: run %s is at epoch %d, batch %d; this learner at epoch %d, batch %d",
		ErrSuperseded, p.run, at.Epoch, at.Batch, p.position.Epoch, p.position.Batch)
}
