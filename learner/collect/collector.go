package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

const (
	// defaultLease is the lease of tickets before their durations are known: twenty times as long as the slowest task's
	// 1,000 steps. Later ones last at least minLease, or Config.Lease if that is less, and at most maxLeases of it.
	defaultLease = 10 * time.Second
	minLease     = 2 * time.Second
	maxLeases    = 30
	// expireInterval is how often the collector looks for leases that have run out.
	expireInterval = 100 * time.Millisecond
	// assertInterval is how often the collector makes sure that the store still has the policy, which a
	// restarted server has lost.
	assertInterval = 5 * time.Second
	// requestTimeout is how long the server may take to answer.
	requestTimeout = 5 * time.Second
)

// Config holds a collector's settings.
type Config struct {
	// Run is the run's name, as proto.CheckRun accepts.
	Run string
	// Epoch is the run's epoch, above that of any earlier learner: see NextEpoch.
	Epoch uint64
	// Seed is the run's seed, from which all episodes' random streams are derived.
	Seed uint64
	// Task is the run's task.
	Task sim.Spec
	// NewEnv makes an environment of the named task, in which the learner plays the tickets that actors fail, let lapse,
	// or are not admitted to. If it is nil, these are issued again.
	NewEnv func(task string) (sim.Env, error)
	// Exact declares that a ticket's result is the same on every actor, bit by bit. Actors with other results are then
	// refused (rollout.Digest), a sample of the tickets is replayed, and the task can be played in segments if its
	// state can be saved.
	Exact bool
	// ShutOut is the file that lists the blocked actors; "" means none.
	ShutOut string
	// GoBack returns advice on a run whose batches from one to another contain the episodes of an actor that lied; nil
	// means that there is none.
	GoBack func(first, last uint64) string
	// Lease is how long an actor may keep a ticket before it is issued again, as long as no durations are known; 0 means
	// 10 s.
	Lease time.Duration
	// Log is for the operator; nil means slog.Default.
	Log *slog.Logger

	digest    string  // of this build, "" if any will do
	stateSize int     // length of the state of the task's environment (sim.Saver), 0 if it cannot be saved
	audit     float64 // share of tickets that are replayed
}

// Collector collects batches for one learner. Its methods are for one goroutine, except Status.
type Collector struct {
	config        Config
	conn          *bus.Conn
	store         *bus.Store
	subjects      proto.Subjects
	subscriptions []*bus.Subscription
	lost          chan struct{} // holds an element after the connection was lost and restored
	superseded    chan error    // holds an element once another learner has taken over
	discovered    chan struct{} // holds an element if actors ask for announcements
	playing       chan struct{} // holds an element if there may be a ticket for the learner to play
	closing       chan struct{} // closed by Close
	closed        sync.Once
	announcing    sync.WaitGroup

	mu         sync.Mutex
	dispatcher *dispatcher // under mu
}

// An Order describes a batch.
type Order struct {
	// Policy is played. Collect fills in its Run, Epoch and Task; its Batch must grow from one order to the next.
	Policy *proto.Policy
	// Steps is the least number of steps in a batch of whole episodes, and the exact number in one of segments.
	Steps int
	// Streams, if not empty, are continued by a segment each.
	Streams []Stream
}

// A Batch is the result of an Order: a function of the order and the seed alone, except for Stats.
type Batch struct {
	// Episodes in the order of their tickets.
	Episodes []*proto.Episode
	// Steps is the sum of the episodes' steps.
	Steps int
	// Streams are the order's streams after the batch.
	Streams []Stream
	// Stats describes how the batch was collected.
	Stats Stats

	of *iteration
}

// Stats describes how a batch was collected. Unlike the batch, it is not reproducible.
type Stats struct {
	// Elapsed is the time from the policy's publication to the last episode needed.
	Elapsed time.Duration
	// Actors counts the processes that sent episodes.
	Actors int
	// Useful is Status.Useful at the start of the iteration.
	Useful int
	// Wasted counts wasted steps: received, and not of the prefix.
	Wasted int
	// Bytes counts the bytes received as chunks.
	Bytes int
	// Refused counts invalid messages.
	Refused int
	// Audited counts tickets whose results the learner compared with its own.
	Audited int
	// Duplicate, Stale and Rejected count episodes that were not used: sent again, no longer wanted, and complete but
	// invalid.
	Duplicate, Stale, Rejected int
	// Dropped counts messages lost because the learner was too slow, since the connection began.
	Dropped int
}

// New returns a collector that answers the run's actors over conn. They have nothing to do until Collect is called.
func New(ctx context.Context, conn *bus.Conn, config Config) (*Collector, error) {
	if err := proto.CheckRun(config.Run); err != nil {
		return nil, err
	}
	if config.Lease == 0 {
		config.Lease = defaultLease
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if least := 2 * proto.InlineEpisode; conn.MaxPayload() < least {
		return nil, fmt.Errorf("the NATS server takes messages of %d bytes: set its max_payload to %d or more",
			conn.MaxPayload(), least)
	}
	if err := config.inspect(); err != nil {
		return nil, err
	}
	shut, err := readShut(config.ShutOut)
	if err != nil {
		return nil, err
	}
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		return nil, err
	}
	c := &Collector{
		config: config, conn: conn, store: store,
		subjects:   proto.SubjectsOf(config.Run),
		lost:       make(chan struct{}, 1),
		superseded: make(chan error, 1),
		discovered: make(chan struct{}, 1),
		playing:    make(chan struct{}, 1),
		closing:    make(chan struct{}),
		dispatcher: newDispatcher(config, shut),
	}
	conn.OnReconnect(func() { signal(c.lost, struct{}{}) })
	if err := c.subscribe(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.announcing.Go(c.announceRegularly)
	if config.NewEnv != nil {
		c.announcing.Go(c.play)
	}
	return c, nil
}

// inspect sets the properties of the task's environment.
func (c *Config) inspect() error {
	if c.audit == 0 {
		c.audit = auditShare
	}
	if c.NewEnv == nil || !c.Exact {
		return nil
	}
	env, err := c.NewEnv(c.Task.Name)
	if err != nil {
		return err
	}
	if saver, ok := env.(sim.Saver); ok {
		c.stateSize = saver.StateSize()
	}
	c.digest, err = rollout.Digest(env)
	return errors.Join(err, env.Close())
}

// subscribe returns once the server delivers requests to the collector.
func (c *Collector) subscribe(ctx context.Context) error {
	for subject, handle := range map[string]func(bus.Message){
		c.subjects.Requests(c.config.Epoch): c.serve,
		c.subjects.Positions():              c.observe,
		proto.DiscoverSubject:               func(bus.Message) { signal(c.discovered, struct{}{}) },
	} {
		s, err := c.conn.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		c.subscriptions = append(c.subscriptions, s)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.conn.Flush(ctx)
}

// Close stops answering actors. The connection stays open, and the run's policy stays in the store.
func (c *Collector) Close() {
	c.closed.Do(func() { close(c.closing) })
	c.announcing.Wait()
	for _, s := range c.subscriptions {
		s.Close()
	}
}

// Collect publishes the order's policy and returns the batch played with it: the shortest prefix of tickets that holds
// at least order.Steps steps, or a segment of each stream. Collect survives the loss of actors and of the server. It
// returns an error if ctx is done, if another learner has taken over (ErrSuperseded), if the policy cannot be
// published, or if a ticket fails on every actor.
func (c *Collector) Collect(ctx context.Context, order Order) (*Batch, error) {
	if order.Steps < 1 {
		panic(fmt.Sprintf("collect: a batch of %d steps", order.Steps))
	}
	c.mu.Lock()
	next := c.dispatcher.position.Batch
	c.mu.Unlock()
	p := *order.Policy
	if p.Batch < next {
		panic(fmt.Sprintf("collect: batch %d where %d is next", p.Batch, next))
	}
	p.Run, p.Epoch, p.Task = c.config.Run, c.config.Epoch, c.config.Task.Name
	segments, err := newSegments(order, &c.config, c.dispatcher.ticket(p.Batch))
	if err != nil {
		return nil, fmt.Errorf("collect batch %d: %w", p.Batch, err)
	}
	publication, err := newPublication(c.store, &p, c.config.Task, c.conn.MaxPayload())
	if err != nil {
		return nil, err
	}
	if err := c.publish(ctx, publication); err != nil {
		return nil, err
	}
	it := c.begin(p.Batch, order.Steps, segments, publication.data)
	err = c.wait(ctx, it, publication)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dispatcher.current = nil
	if err != nil {
		return nil, fmt.Errorf("collect batch %d: %w", p.Batch, err)
	}
	b := c.dispatcher.batch(it)
	b.Stats.Dropped = c.conn.Dropped()
	return b, nil
}

// begin starts issuing tickets.
func (c *Collector) begin(number uint64, minSteps int, segments *segments, policy []byte) *iteration {
	c.mu.Lock()
	defer c.mu.Unlock()
	decoded := sync.OnceValue(func() *proto.Policy {
		p := new(proto.Policy)
		if err := proto.Unmarshal(policy, p); err != nil {
			panic(err) // it was encoded here
		}
		return p
	})
	it := c.dispatcher.begin(number, minSteps, segments, decoded, time.Now())
	c.announceLocked()
	return it
}

// wait serves the iteration until its batch is complete.
func (c *Collector) wait(ctx context.Context, it *iteration, p *publication) error {
	expire := time.NewTicker(max(min(c.config.Lease/10, expireInterval), time.Millisecond))
	defer expire.Stop()
	assert := time.NewTicker(assertInterval)
	defer assert.Stop()
	for {
		select {
		case <-it.complete:
			return nil
		case err := <-it.failed:
			return err
		case err := <-c.superseded:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case now := <-expire.C:
			c.expire(now)
		case <-c.lost:
			if err := c.assert(ctx, p); err != nil {
				return err
			}
		case <-assert.C:
			if err := c.assert(ctx, p); err != nil {
				return err
			}
		}
	}
}

// expire ends leases and uploads that have run out, and announces it if that creates work.
func (c *Collector) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dispatcher.expire(now)
	c.announceNews()
}

// Status is what a collector is doing, and has done since New.
type Status struct {
	// Steps of the batch being collected have arrived, of the Want that it needs; both are 0 between batches.
	Steps, Want int
	// Useful is the number of useful concurrent episodes, 0 between batches. The package's documentation derives it.
	// Further actors would only wait.
	Useful int
	// ShutOut counts the actors and keys that are shut out, Lapsed the leases that have run out, and Own the tickets that
	// the learner has played for want of an actor's result.
	ShutOut, Lapsed, Own int
}

// Status returns what the collector is doing now.
func (c *Collector) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.dispatcher
	s := Status{ShutOut: len(d.trust.shut), Lapsed: d.lapsed, Own: d.own}
	if it := d.current; it != nil {
		s.Useful, s.Want = it.ledger.Useful(), it.ledger.minSteps
		s.Steps = min(it.ledger.received, s.Want)
	}
	return s
}

// signal puts v into a channel of capacity one, unless it is full.
func signal[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default:
	}
}
