package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

const (
	// defaultLease is how long a ticket may stay away: twenty times what the slowest task's 1,000 steps take.
	defaultLease = 10 * time.Second
	// assertInterval is how often the collector makes sure that the store still has the policy: a server
	// that was restarted has forgotten it.
	assertInterval = 5 * time.Second
	// requestTimeout is how long the server may take to answer.
	requestTimeout = 5 * time.Second
	// retryInterval is the pause before asking a server again that did not answer.
	retryInterval = 500 * time.Millisecond
	// answerInterval is the least time between two announcements that actors ask for. It doubles with each, up to
	// proto.AnnounceInterval, and halves in every interval without: a thousand actors that come to a hundred learners would
	// have ten times as many sent to each of them, and be a minute in coming.
	answerInterval = 100 * time.Millisecond
)

// Config holds a collector's settings.
type Config struct {
	// Run is the run's name, as proto.CheckRun accepts.
	Run string
	// Epoch is the learner's term in office, above that of any learner before it: see NextEpoch.
	Epoch uint64
	// Seed is the run's, which all episodes' random streams are derived from.
	Seed uint64
	// Task is what the actors play.
	Task sim.Spec
	// Engine is what episodes must be played on, as proto.Episode has it; "" is any.
	Engine string
	// Lease is how long an actor may keep a ticket before it is given out again; 0 is 10 s.
	Lease time.Duration
	// Log receives what an operator should know; nil is slog.Default.
	Log *slog.Logger
}

// Collector collects batches for one learner. Its methods are for one goroutine, except Progress and Useful.
type Collector struct {
	config        Config
	conn          *bus.Conn
	store         *bus.Store
	subjects      proto.Subjects
	subscriptions []*bus.Subscription
	lost          chan struct{} // holds an element after the connection was lost and restored
	superseded    chan error    // holds an element once another learner has taken over
	discovered    chan struct{} // holds an element if actors ask who is there
	closing       chan struct{} // closed by Close
	closed        sync.Once
	heart         sync.WaitGroup

	mu       sync.Mutex
	position proto.Position  // the earliest iteration whose episodes are wanted
	current  *iteration      // nil unless a batch is being collected
	lengths  Lengths         // of episodes, as far as is known
	dry      bool            // actors were told that there is no ticket
	stamp    uint64          // of the last time that they were told how many there are
	stats    Stats           // since the last batch
	actors   map[string]bool // that sent episodes since the last batch
	proven   map[string]bool // that ever did
	engine   string          // of the latest episode
	spare    buffers         // for uploads

	complaints int // about actors, since the last batch
}

// iteration is a batch being collected.
type iteration struct {
	ledger   *Ledger
	uploads  *uploads
	started  time.Time
	complete chan struct{} // closed when the ledger is complete
	failed   chan error    // holds an element if the batch can never be complete
}

// A Batch is what Collect returns.
type Batch struct {
	// Episodes in the order of their tickets: a function of the policy, the seed and minSteps alone.
	Episodes []*proto.Episode
	// Steps is the sum of the episodes' steps.
	Steps int
	// Stats says how the collecting went.
	Stats Stats
}

// Stats says how the collecting of a batch went. It differs from one time to the next.
type Stats struct {
	// Elapsed is the time from the policy's publication to the last episode needed.
	Elapsed time.Duration
	// Actors counts the processes that sent episodes.
	Actors int
	// Useful is how many episodes at once were useful when the collecting began: see Collector.Useful.
	Useful int
	// Wasted counts steps played in vain: beyond the prefix, a second time, or abandoned.
	Wasted int
	// Bytes counts what was received as chunks.
	Bytes int
	// Refused counts messages that were wrong.
	Refused int
	// Duplicate, Stale and Rejected count episodes that did not count: sent though they were there already, sent though
	// no longer wanted, and wrong though whole.
	Duplicate, Stale, Rejected int
	// Dropped counts messages lost because the learner was too slow, since the connection began.
	Dropped int
}

// New returns a collector that answers the run's actors over conn. Until Collect is called there is nothing to do for them.
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
		return nil, fmt.Errorf("the NATS server takes messages of %d bytes: set its max_payload to %d or more (1 MiB is usual)", conn.MaxPayload(), least)
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
		closing:    make(chan struct{}),
		position:   proto.Position{Epoch: config.Epoch},
		lengths:    Lengths{Mean: float64(config.Task.TimeLimit)},
		actors:     make(map[string]bool),
		proven:     make(map[string]bool),
	}
	conn.OnReconnect(func() { signal(c.lost, struct{}{}) })
	if err := c.subscribe(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.heart.Go(c.beat)
	return c, nil
}

// subscribe returns once the server sends requests here.
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

// beat announces the run until Close: so often that nobody believes the learner gone, and soon when actors ask.
func (c *Collector) beat() {
	heartbeat := time.NewTicker(proto.AnnounceInterval)
	defer heartbeat.Stop()
	for pause := answerInterval; ; pause = min(2*pause, proto.AnnounceInterval) {
		select {
		case <-c.closing:
			return
		case <-heartbeat.C:
			c.announce()
			pause = max(pause/4, answerInterval/2)
			continue
		case <-c.discovered:
			c.announce()
		}
		select {
		case <-c.closing:
			return
		case <-time.After(pause):
		}
	}
}

// Close ends the answering. The connection stays open; so does the run's policy in the store.
func (c *Collector) Close() {
	c.closed.Do(func() { close(c.closing) })
	c.heart.Wait()
	for _, s := range c.subscriptions {
		s.Close()
	}
}

// Collect publishes the policy and returns the batch that it plays: the episodes of the shortest prefix of tickets
// that holds at least minSteps steps. Run, Epoch and Task of the policy are filled in; its Iteration must grow from one
// batch to the next. Collect survives the loss of actors and of the server. Its errors are ctx's, ErrSuperseded,
// a policy that cannot be published, and a ticket that fails whoever plays it.
func (c *Collector) Collect(ctx context.Context, policy *proto.Policy, minSteps int) (*Batch, error) {
	if minSteps < 1 {
		panic(fmt.Sprintf("collect: a batch of %d steps", minSteps))
	}
	if at := (proto.Position{Epoch: c.config.Epoch, Iteration: policy.Iteration}); at.Before(c.position) {
		panic(fmt.Sprintf("collect: iteration %d where %d is next", at.Iteration, c.position.Iteration))
	}
	p := *policy
	p.Run, p.Epoch, p.Task = c.config.Run, c.config.Epoch, c.config.Task.Name
	publication, err := newPublication(c.store, &p, c.config.Task, c.conn.MaxPayload())
	if err != nil {
		return nil, err
	}
	if err := c.publish(ctx, publication); err != nil {
		return nil, err
	}
	it := c.open(p.Iteration, minSteps)
	defer c.close()
	c.announce()
	if err := c.wait(ctx, it, publication); err != nil {
		return nil, fmt.Errorf("collect iteration %d: %w", p.Iteration, err)
	}
	return c.batch(it), nil
}

// publish puts the policy in the store, for as long as it takes.
func (c *Collector) publish(ctx context.Context, p *publication) (err error) {
	ctx, end := observe.Span(ctx, "publish")
	defer end(&err)
	for warned := false; ; warned = true {
		err := p.put(ctx)
		if err == nil || hopeless(err) {
			return err
		}
		if !warned && ctx.Err() == nil {
			c.config.Log.Warn("cannot publish the policy; trying again", "iteration", p.position.Iteration, "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("publish the policy of iteration %d: %w", p.position.Iteration, errors.Join(ctx.Err(), err))
		case <-time.After(retryInterval):
		}
	}
}

// open begins an iteration.
func (c *Collector) open(number uint64, minSteps int) *iteration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := proto.Position{Epoch: c.config.Epoch, Iteration: number}
	first := proto.Ticket{Run: c.config.Run, Epoch: at.Epoch, Iteration: number, Seed: c.config.Seed}
	c.position = at
	c.current = &iteration{
		ledger:   NewLedger(first, minSteps, c.lengths, c.config.Lease, c.proven),
		uploads:  newUploads(proto.Credit, c.config.Lease, &c.spare),
		started:  time.Now(),
		complete: make(chan struct{}),
		failed:   make(chan error, 1),
	}
	c.stats.Useful = c.current.ledger.Useful()
	return c.current
}

// close ends the iteration, however it went.
func (c *Collector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = nil
}

// wait looks after the iteration until its batch is complete.
func (c *Collector) wait(ctx context.Context, it *iteration, p *publication) error {
	sweep := time.NewTicker(max(c.config.Lease/10, time.Millisecond))
	defer sweep.Stop()
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
		case <-sweep.C:
			c.sweep(it, time.Now())
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

// sweep takes back what has expired and wakes the actors if that leaves something to do.
func (c *Collector) sweep(it *iteration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it.uploads.expire(now)
	c.wake(it, now)
}

// wake announces that there are tickets, if actors believe that there are none. c.mu is held.
func (c *Collector) wake(it *iteration, now time.Time) {
	if c.dry && it.ledger.Need(now) > 0 {
		c.announceLocked(now)
	}
}

// assert makes sure that the store holds the policy and that no other learner has taken over. What the server does not
// answer now it will be asked again.
func (c *Collector) assert(ctx context.Context, p *publication) error {
	err := p.put(ctx)
	if hopeless(err) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		c.config.Log.Warn("cannot check the published policy; trying again", "error", err)
	}
	c.announce()
	return nil
}

func (c *Collector) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announceLocked(time.Now())
}

// announceLocked tells all actors where the learner stands. It is a hint: whoever misses it hears the next one.
// c.mu is held.
func (c *Collector) announceLocked(now time.Time) {
	data, err := proto.Marshal(nil, &proto.Announcement{
		Run: c.config.Run, Task: c.config.Task.Name, Position: c.position, Engine: c.config.Engine, Need: c.need(now),
	})
	if err == nil {
		err = c.conn.Publish(c.subjects.Positions(), data)
	}
	if err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.config.Log.Warn("cannot announce the position", "error", err)
	}
}

// need is how many tickets there are for slots that ask now. c.mu is held.
func (c *Collector) need(now time.Time) proto.Need {
	n := 0
	if c.current != nil {
		n = c.current.ledger.Need(now)
	}
	c.dry = n == 0
	c.stamp++
	return proto.Need{Tickets: uint64(n), Stamp: c.stamp}
}

// batch returns what the iteration brought, and begins new statistics.
func (c *Collector) batch(it *iteration) *Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &Batch{Episodes: it.ledger.Batch(), Steps: it.ledger.steps, Stats: c.stats}
	b.Stats.Wasted += it.ledger.Wasted()
	b.Stats.Actors = len(c.actors)
	b.Stats.Dropped = c.conn.Dropped()
	c.stats, c.complaints = Stats{}, 0
	clear(c.actors)
	c.lengths = lengthsOf(b.Episodes)
	return b
}

// Progress returns how many steps of the batch being collected have arrived, and how many it needs; 0, 0 between
// batches.
func (c *Collector) Progress() (steps, want int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return 0, 0
	}
	l := c.current.ledger
	return min(l.received, l.minSteps), l.minSteps
}

// Useful returns how many episodes at once are useful now, whoever plays them; 0 between batches. The package's
// documentation derives it. More actors only wait.
func (c *Collector) Useful() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return 0
	}
	return c.current.ledger.Useful()
}

// signal puts v into a channel that has room for one element, unless there is one.
func signal[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default:
	}
}
