package collect

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

// maxComplaints bounds the number of log lines about invalid messages per batch.
const maxComplaints = 20

// dispatcher decides which slot plays which ticket, which episodes count, and what is announced to actors. It has no
// network, clock or lock: requests and the time are passed in, by one goroutine at a time.
type dispatcher struct {
	config   Config
	position proto.Position       // the earliest iteration whose episodes are wanted
	current  *iteration           // nil unless a batch is being collected
	asked    map[string]time.Time // when actors last asked for a ticket of the newest batch
	lengths  Lengths              // of episodes, as far as known
	dry      bool                 // actors were told that there is no ticket
	news     bool                 // an announcement should be sent at once
	stamp    uint64               // of the last statement of the need
	stats    Stats                // since the last batch
	actors   map[string]bool      // that sent episodes since the last batch
	proven   map[string]bool      // that have ever sent a valid one
	engine   string               // of the latest episode
	spare    buffers              // for uploads

	complaints int // about actors, since the last batch
}

// iteration is a batch being collected.
type iteration struct {
	ledger   *Ledger
	segments *segments // nil if tickets are for whole episodes
	uploads  *uploads
	started  time.Time
	complete chan struct{} // closed when the ledger is complete
	failed   chan error    // holds an element if the batch can never be complete
}

func newDispatcher(config Config) *dispatcher {
	return &dispatcher{
		config:   config,
		position: proto.Position{Epoch: config.Epoch},
		lengths:  Lengths{Mean: float64(config.Task.TimeLimit)},
		actors:   make(map[string]bool),
		proven:   make(map[string]bool),
	}
}

// begin starts an iteration: of whole episodes, or of a segment of each stream.
func (d *dispatcher) begin(number uint64, minSteps int, segments *segments, now time.Time) *iteration {
	first := d.ticket(number)
	d.position.Iteration = number
	lengths := d.lengths
	if segments != nil {
		lengths = Lengths{Mean: float64(segments.steps)}
	}
	ledger := NewLedger(first, minSteps, lengths, d.config.Lease, d.proven)
	ledger.follow(d.asked)
	d.asked = ledger.asked
	d.current = &iteration{
		ledger:   ledger,
		segments: segments,
		uploads:  newUploads(proto.Credit, d.config.Lease, &d.spare),
		started:  now,
		complete: make(chan struct{}),
		failed:   make(chan error, 1),
	}
	d.stats.Useful = d.current.ledger.Useful()
	return d.current
}

// ticket returns the first ticket of an iteration.
func (d *dispatcher) ticket(number uint64) proto.Ticket {
	return proto.Ticket{Run: d.config.Run, Epoch: d.config.Epoch, Iteration: number, Seed: d.config.Seed}
}

// batch returns the iteration's batch and resets the statistics.
func (d *dispatcher) batch(it *iteration) *Batch {
	b := &Batch{Episodes: it.ledger.Batch(), Steps: it.ledger.steps, Stats: d.stats}
	b.Stats.Wasted += it.ledger.Wasted()
	b.Stats.Actors = len(d.actors)
	d.stats, d.complaints = Stats{}, 0
	clear(d.actors)
	if it.segments != nil {
		b.Streams = it.segments.after
	} else {
		d.lengths = lengthsOf(b.Episodes)
	}
	return b
}

// need returns the number of tickets available to slots that ask now.
func (d *dispatcher) need(now time.Time) proto.Need {
	n := 0
	if d.current != nil {
		n = d.current.ledger.Need(now)
	}
	d.dry = n == 0
	d.stamp++
	return proto.Need{Tickets: uint64(n), Stamp: d.stamp}
}

// announcement returns the current announcement.
func (d *dispatcher) announcement(now time.Time) *proto.Announcement {
	d.news = false
	return &proto.Announcement{
		Run: d.config.Run, Task: d.config.Task.Name, Position: d.position, Engine: d.config.Engine, Need: d.need(now),
	}
}

// expire takes back expired tickets and uploads.
func (d *dispatcher) expire(now time.Time) {
	d.current.uploads.expire(now)
	d.wake(now)
}

// wake requests an announcement if there are tickets and actors believe that there are none.
func (d *dispatcher) wake(now time.Time) {
	d.news = d.news || d.dry && d.current.ledger.Need(now) > 0
}

// answer answers one request.
func (d *dispatcher) answer(subject string, data []byte, now time.Time) proto.Reply {
	request, err := proto.DecodeRequest(subject, data)
	if err != nil {
		return d.refuse(err)
	}
	switch r := request.(type) {
	case *proto.Ask:
		return d.ask(r, now)
	case *proto.Offer:
		return d.offer(r, now)
	case *proto.Chunk:
		return d.chunk(r, now)
	case *proto.Return:
		return d.takeBack(r, now)
	}
	return proto.Reply{}
}

// refuse answers an invalid message.
func (d *dispatcher) refuse(err error) proto.Reply {
	d.stats.Refused++
	d.complain("refused a message", "error", err)
	return proto.Reply{Status: proto.Refused, Reason: proto.Reason(err)}
}

// complain logs an actor's mistake, with a limit per batch.
func (d *dispatcher) complain(what string, args ...any) {
	if d.complaints++; d.complaints <= maxComplaints {
		d.config.Log.Warn(what, args...)
	}
	if d.complaints == maxComplaints {
		d.config.Log.Warn("further complaints about actors are not logged until the next batch")
	}
}

// ask issues a ticket, if there is one.
func (d *dispatcher) ask(r *proto.Ask, now time.Time) proto.Reply {
	if err := d.config.checkEngine(r.Engine); err != nil {
		return d.refuse(err)
	}
	// Bound the sum against hostile numbers.
	d.stats.Wasted += int(min(r.Abandoned, uint64(max(d.config.Task.TimeLimit, d.segmentSteps()))))
	if reply := d.grant(r.Slot, now); reply.Next != nil {
		return reply
	}
	return proto.Reply{Status: proto.Wait}
}

// grant returns a reply with a ticket, if there is one.
func (d *dispatcher) grant(slot proto.Slot, now time.Time) (reply proto.Reply) {
	if d.current == nil {
		return reply
	}
	if t, ok := d.current.ledger.Grant(slot, now); ok {
		reply.Next, reply.Start = &t, d.current.segments.start(t)
	}
	return reply
}

// offer grants the credit to send an episode, if it is wanted and there is credit.
func (d *dispatcher) offer(r *proto.Offer, now time.Time) proto.Reply {
	if most := d.maxEpisode(); r.Size > most {
		return d.refuse(fmt.Errorf("%w: an episode of %d bytes, %s has at most %d", proto.ErrTooLarge, r.Size, d.config.Task.Name, most))
	}
	if !d.wanted(r.Ticket) {
		return d.stale(r.Ticket)
	}
	d.current.ledger.Renew(r.Ticket, r.Slot, now)
	if !d.current.uploads.offer(r, now) {
		return proto.Reply{Status: proto.Wait}
	}
	return proto.Reply{}
}

// wanted reports whether the ticket's episode would be recorded.
func (d *dispatcher) wanted(t proto.Ticket) bool {
	return d.current != nil && d.current.ledger.Wanted(t)
}

// stale answers, and counts, an episode that would not be recorded.
func (d *dispatcher) stale(t proto.Ticket) proto.Reply {
	if d.current != nil && d.current.ledger.Completed(t) {
		d.stats.Duplicate++
	} else {
		d.stats.Stale++
	}
	return proto.Reply{Status: proto.Stale}
}

// chunk handles a part of an episode, and records the episode with the last one.
func (d *dispatcher) chunk(r *proto.Chunk, now time.Time) proto.Reply {
	d.stats.Bytes += len(r.Data)
	if !d.wanted(r.Ticket) {
		if d.current != nil {
			d.current.uploads.drop(r.Slot)
		}
		return d.stale(r.Ticket)
	}
	d.current.ledger.Renew(r.Ticket, r.Slot, now)
	data, err := d.current.uploads.add(r, now)
	switch {
	case errors.Is(err, errRestart):
		return proto.Reply{Status: proto.Wait}
	case err != nil:
		return d.refuse(err)
	case data == nil:
		return proto.Reply{}
	}
	episodes, after, err := d.decode(data, r.Ticket)
	if !inline(r) { // a single chunk's memory is not worth keeping
		d.spare.give(data)
	}
	if err != nil {
		return d.reject(r, err, now)
	}
	return d.record(r, episodes, after, now)
}

// decode returns the episode of a ticket, or the episodes of its segment and the stream after it.
func (d *dispatcher) decode(data []byte, t proto.Ticket) (episodes []*proto.Episode, after Stream, err error) {
	if s := d.current.segments; s != nil {
		return s.decode(&d.config, data, t)
	}
	e := new(proto.Episode)
	if err := proto.Unmarshal(data, e); err != nil {
		return nil, after, err
	}
	return []*proto.Episode{e}, after, d.config.check(e, t)
}

// reject refuses a complete but invalid episode. Its ticket is issued again, unless that happened too often.
func (d *dispatcher) reject(r *proto.Chunk, err error, now time.Time) proto.Reply {
	d.release(r.Ticket, r.Slot, err.Error(), now)
	d.stats.Rejected++
	return d.refuse(fmt.Errorf("%v from %v: %w", r.Ticket, r.Slot, err))
}

// release takes back a ticket; one that fails too often ends the iteration.
func (d *dispatcher) release(t proto.Ticket, slot proto.Slot, reason string, now time.Time) {
	if err := d.current.ledger.Release(t, slot, reason, now); err != nil {
		if s := d.current.segments; s != nil && s.restart(t) {
			d.current.ledger.Retry(t)
			d.config.Log.Warn("an episode is given up, and its stream starts anew: no actor can go on from its state", "stream", t.Index, "error", err)
		} else {
			signal(d.current.failed, err)
		}
	}
	d.wake(now)
}

// record enters a ticket's episodes in the ledger. While there is plenty, the answer brings the slot's next ticket, if it wants
// one; later the slot has to ask for it, which it does when it can play it at once.
func (d *dispatcher) record(r *proto.Chunk, episodes []*proto.Episode, after Stream, now time.Time) proto.Reply {
	l := d.current.ledger
	if won, err := l.Record(episodes...); !won || err != nil {
		return d.stale(r.Ticket)
	}
	if s := d.current.segments; s != nil {
		s.after[r.Ticket.Index] = after
	}
	d.note(r.Slot, episodes[0])
	if l.Complete() {
		d.finish(now)
		return proto.Reply{}
	}
	d.wake(now)
	if !r.More || !l.Plenty() {
		return proto.Reply{}
	}
	return d.grant(r.Slot, now)
}

// note remembers who sends episodes, and what they run on.
func (d *dispatcher) note(slot proto.Slot, e *proto.Episode) {
	if len(d.actors) < maxActors {
		d.actors[slot.Actor] = true
	}
	if len(d.proven) < maxActors {
		d.proven[slot.Actor] = true
	}
	if d.engine == "" {
		d.engine = e.Engine
	}
	if e.Engine != d.engine {
		d.complain("actors run different engines: batches may differ in the last bits from one time to the next",
			"first", d.engine, "now", e.Engine, "actor", slot.Actor)
		d.engine = e.Engine
	}
}

// finish ends the iteration for the actors: what is still being played is not wanted any more.
func (d *dispatcher) finish(now time.Time) {
	d.stats.Elapsed = now.Sub(d.current.started)
	d.position.Iteration++
	d.news = true
	close(d.current.complete)
}

// takeBack takes a ticket back from an actor that leaves, or that could not play it.
func (d *dispatcher) takeBack(r *proto.Return, now time.Time) proto.Reply {
	if r.Reason != "" {
		d.complain("an episode failed", "ticket", r.Ticket, "slot", r.Slot, "reason", r.Reason)
	}
	if d.current != nil {
		d.release(r.Ticket, r.Slot, r.Reason, now)
	}
	return proto.Reply{}
}

// maxEpisode returns the size of the longest encoding of a ticket's episode or segment.
func (d *dispatcher) maxEpisode() uint64 {
	o, a, steps := d.config.Task.ObservationDim, d.config.Task.ActionDim, d.config.Task.TimeLimit
	if n := d.segmentSteps(); n > 0 {
		return maxSegment(o, a, n)
	}
	return uint64(steps*(4*(o+a)+8) + 4*o + proto.MaxControl)
}

// segmentSteps returns the length of the segments being collected, 0 if there are none.
func (d *dispatcher) segmentSteps() int {
	if d.current == nil || d.current.segments == nil {
		return 0
	}
	return d.current.segments.steps
}

// check compares an episode with its ticket and the task.
func (c *Config) check(e *proto.Episode, t proto.Ticket) error {
	task := c.Task
	switch {
	case e.Ticket != t:
		return fmt.Errorf("%w: the episode of %v came as that of %v", proto.ErrInvalid, e.Ticket, t)
	case e.ObservationDim() != task.ObservationDim || e.ActionDim() != task.ActionDim:
		return fmt.Errorf("%w: %d observations and %d actions a step, %s has %d and %d",
			proto.ErrShape, e.ObservationDim(), e.ActionDim(), task.Name, task.ObservationDim, task.ActionDim)
	case e.Steps() > task.TimeLimit || e.Steps() < task.TimeLimit && !e.Terminated:
		return fmt.Errorf("%w: %d steps, terminated %v, with a time limit of %d", proto.ErrInvalid, e.Steps(), e.Terminated, task.TimeLimit)
	}
	return c.checkEngine(e.Engine)
}

// checkEngine compares what a slot plays on with what the run wants.
func (c *Config) checkEngine(engine string) error {
	if c.Engine != "" && engine != c.Engine {
		return fmt.Errorf("%w: played on %q, this run wants %q", proto.ErrInvalid, engine, c.Engine)
	}
	return nil
}
