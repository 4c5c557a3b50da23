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
	position proto.Position  // the earliest iteration whose episodes are wanted
	current  *iteration      // nil unless a batch is being collected
	lengths  Lengths         // of episodes, as far as known
	lease    time.Duration   // of tickets
	dry      bool            // actors were told that there is no ticket
	news     bool            // an announcement should be sent at once
	stamp    uint64          // of the last statement of the need
	stats    Stats           // since the last batch
	actors   map[string]bool // that sent episodes since the last batch
	trust    trust
	audits   []*replay // that wait

	plays      bool // the learner should look for a ticket to play
	turn       bool // of its own tickets, before audits
	turnedAway bool // since a ticket was issued last, an actor that asked for one was refused
	alone      bool // the learner plays because nobody else may
	complaints int  // about actors, since the last batch
	lapsed     int  // leases that have run out
	own        int  // tickets that the learner has played
}

// iteration is a batch that is being collected, or that was.
type iteration struct {
	ledger   *Ledger
	segments *segments // nil if tickets are for whole episodes
	policy   func() *proto.Policy
	uploads  *uploads
	started  time.Time
	complete chan struct{} // closed when the ledger is complete
	failed   chan error    // holds an element if the batch can never be complete
	unable   bool          // the learner has no environment to play in
}

func newDispatcher(config Config, shut map[string]string) *dispatcher {
	return &dispatcher{
		config:   config,
		position: proto.Position{Epoch: config.Epoch},
		lengths:  Lengths{Mean: float64(config.Task.TimeLimit)},
		lease:    config.Lease,
		actors:   make(map[string]bool),
		trust:    trust{standings: make(map[string]*standing), shut: shut},
	}
}

// begin starts an iteration: of whole episodes, or of a segment of each stream.
func (d *dispatcher) begin(
	number uint64, minSteps int, segments *segments, policy func() *proto.Policy, now time.Time,
) *iteration {
	first := d.ticket(number)
	d.position.Batch = number
	lengths := d.lengths
	if segments != nil {
		// none is longer, so that no more tickets than streams are issued
		lengths = Lengths{Mean: float64(segments.length(0))}
	}
	d.plays = true
	d.current = &iteration{
		ledger:   NewLedger(first, minSteps, lengths, d.lease),
		segments: segments,
		policy:   policy,
		uploads:  newUploads(proto.Credit, d.lease),
		started:  now,
		complete: make(chan struct{}),
		failed:   make(chan error, 1),
	}
	d.stats.Useful = d.current.ledger.Useful()
	return d.current
}

// ticket returns the first ticket of an iteration.
func (d *dispatcher) ticket(number uint64) proto.Ticket {
	return proto.Ticket{Run: d.config.Run, Epoch: d.config.Epoch, Batch: number, Seed: d.config.Seed}
}

// batch returns the iteration's batch and resets the statistics.
func (d *dispatcher) batch(it *iteration) *Batch {
	d.stats.Wasted += it.ledger.Wasted()
	d.stats.Actors = len(d.actors)
	b := it.batch(d.stats)
	d.stats, d.complaints = Stats{}, 0
	clear(d.actors)
	longest := d.config.Task.TimeLimit
	if it.segments != nil {
		longest = it.segments.length(0)
	} else {
		d.lengths = lengthsOf(b.Episodes)
	}
	d.lease = it.ledger.Lease(longest, min(minLease, d.config.Lease), maxLeases*d.config.Lease)
	return b
}

// batch returns the batch of a complete ledger.
func (it *iteration) batch(stats Stats) *Batch {
	b := &Batch{Episodes: it.ledger.Batch(), Steps: it.ledger.steps, Stats: stats, of: it}
	if it.segments != nil {
		b.Streams = it.segments.after
	}
	return b
}

// need returns the number of tickets available to slots that ask now.
func (d *dispatcher) need() proto.Need {
	n := 0
	if d.current != nil {
		n = d.current.ledger.Need()
	}
	d.dry = n == 0
	d.stamp++
	return proto.Need{Tickets: uint64(n), Stamp: d.stamp}
}

// announcement returns the current announcement.
func (d *dispatcher) announcement() *proto.Announcement {
	d.news = false
	return &proto.Announcement{Run: d.config.Run, Task: d.config.Task.Name, Position: d.position, Need: d.need()}
}

// expire ends the leases and uploads that have run out.
func (d *dispatcher) expire(now time.Time) {
	d.current.uploads.expire(now)
	for _, slot := range d.current.ledger.Expire(now) {
		d.lapsed++
		d.blame(slot, strike, "a lease has run out", now)
		d.plays = true
	}
	d.plays = d.plays || d.turnedAway
	d.wake()
}

// wake requests an announcement if there are tickets and actors believe that there are none.
func (d *dispatcher) wake() {
	d.news = d.news || d.dry && d.current.ledger.Need() > 0
}

// answer answers one request.
func (d *dispatcher) answer(subject string, data []byte, now time.Time) proto.Reply {
	request, err := proto.DecodeRequest(subject, data)
	if err != nil {
		return d.refuse(err)
	}
	if reason := d.trust.refusal(request.Sender().Actor); reason != "" {
		d.turnedAway = true
		return proto.Reply{Status: proto.Refused, Reason: reason}
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
	if d.config.digest != "" && r.Digest != d.config.digest {
		d.turnedAway = true
		return d.refuse(fmt.Errorf("%w: %s computes %s otherwise (digest %.12s on %s) than the learner (%.12s): "+
			"run the same release on machines whose results agree",
			proto.ErrInvalid, r.Slot.Actor, d.config.Task.Name, r.Digest, r.Engine, d.config.digest))
	}
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
	if now.Before(d.trust.of(slot.Actor).until) {
		d.turnedAway = true
		return reply
	}
	if t, ok := d.current.ledger.Grant(slot, now); ok {
		reply.Next, reply.Start = &t, d.current.segments.start(t)
		d.turnedAway, d.alone = false, false
	}
	return reply
}

// offer grants the credit to send an episode, if it is wanted and there is credit.
func (d *dispatcher) offer(r *proto.Offer, now time.Time) proto.Reply {
	if most := d.maxEpisode(); r.Size > most {
		return d.refuse(fmt.Errorf("%w: an episode of %d bytes, %s has at most %d",
			proto.ErrTooLarge, r.Size, d.config.Task.Name, most))
	}
	if !d.wanted(r.Ticket, r.Slot) {
		return d.stale(r.Ticket)
	}
	if !d.current.uploads.offer(r, now) {
		return proto.Reply{Status: proto.Wait}
	}
	return proto.Reply{}
}

// wanted reports whether the ticket's episode would be recorded if it came from a slot.
func (d *dispatcher) wanted(t proto.Ticket, slot proto.Slot) bool {
	return d.current != nil && d.current.ledger.Wants(t, slot)
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
	if !d.wanted(r.Ticket, r.Slot) {
		if d.current != nil {
			d.current.uploads.drop(r.Slot)
		}
		return d.stale(r.Ticket)
	}
	data, err := d.current.uploads.add(r, now)
	switch {
	case errors.Is(err, errRestart):
		return proto.Reply{Status: proto.Wait}
	case err != nil:
		return d.refuse(err)
	case data == nil:
		return proto.Reply{}
	}
	episodes, after, err := d.current.decode(&d.config, data, r.Ticket)
	if err != nil {
		return d.reject(r, err)
	}
	return d.record(r, episodes, after, now)
}

// decode returns the episode of a ticket, or the episodes of its segment and the stream after it.
func (it *iteration) decode(c *Config, data []byte, t proto.Ticket) (
	episodes []*proto.Episode, after Stream, err error,
) {
	if it.segments != nil {
		return it.segments.decode(c, data, t)
	}
	e := new(proto.Episode)
	if err := proto.Unmarshal(data, e); err != nil {
		return nil, after, err
	}
	return []*proto.Episode{e}, after, c.check(e, t)
}

// reject refuses a complete but invalid episode.
func (d *dispatcher) reject(r *proto.Chunk, err error) proto.Reply {
	d.release(r.Ticket, r.Slot, err.Error())
	d.stats.Rejected++
	return d.refuse(fmt.Errorf("%v from %v: %w", r.Ticket, r.Slot, err))
}

// record enters a ticket's episodes in the ledger. While there is plenty, the answer brings the slot's next ticket, if
// it wants one; later the slot has to ask for it, which it does when it can play it at once.
func (d *dispatcher) record(r *proto.Chunk, episodes []*proto.Episode, after Stream, now time.Time) proto.Reply {
	actor, l := r.Slot.Actor, d.current.ledger
	if !d.enter(r.Slot, r.Ticket, episodes, after, now) {
		return d.stale(r.Ticket)
	}
	remember(d.actors, actor, true)
	d.sample(r.Ticket, actor)
	d.trust.earned(actor, r.Ticket.Batch)
	if !r.More || l.Complete() || !l.Plenty() {
		return proto.Reply{}
	}
	return d.grant(r.Slot, now)
}

// enter enters a ticket's episodes in the ledger, and reports whether it had none.
func (d *dispatcher) enter(
	by proto.Slot, t proto.Ticket, episodes []*proto.Episode, after Stream, now time.Time,
) bool {
	if !d.current.enter(by, t, episodes, after, now) {
		return false
	}
	if d.current.ledger.Complete() {
		d.finish(now)
	} else {
		d.wake()
	}
	return true
}

func (it *iteration) enter(
	by proto.Slot, t proto.Ticket, episodes []*proto.Episode, after Stream, now time.Time,
) bool {
	won := it.ledger.Record(by, now, episodes...)
	if won && it.segments != nil {
		it.segments.after[t.Index] = after
	}
	return won
}

// finish ends the iteration for the actors: episodes in progress are no longer wanted.
func (d *dispatcher) finish(now time.Time) {
	d.stats.Elapsed = now.Sub(d.current.started)
	d.position.Batch++
	d.news = true
	close(d.current.complete)
}

// takeBack takes a ticket back from an actor that leaves, or that could not play it.
func (d *dispatcher) takeBack(r *proto.Return, now time.Time) proto.Reply {
	if d.release(r.Ticket, r.Slot, r.Reason) && r.Reason == "" {
		d.blame(r.Slot, 1, "it returns its tickets", now)
	}
	return proto.Reply{}
}

// release takes a ticket back from a slot. If that could not play it, for a reason, the learner does, if it can.
func (d *dispatcher) release(t proto.Ticket, slot proto.Slot, reason string) (held bool) {
	if d.current == nil {
		return false
	}
	if !d.able() {
		reason = ""
	}
	if held = d.current.ledger.Return(t, slot, reason); held {
		d.plays = d.plays || reason != ""
		d.wake()
	}
	return held
}

// maxEpisode returns the size of the longest encoding of a ticket's episode or segment.
func (d *dispatcher) maxEpisode() uint64 {
	o, a, steps := d.config.Task.ObservationDim, d.config.Task.ActionDim, d.config.Task.TimeLimit
	if it := d.current; it != nil && it.segments != nil {
		return maxSegment(o, a, it.segments.length(0))
	}
	return uint64(steps*(4*(o+a)+8) + 4*o + proto.MaxControl)
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
	case e.Steps() > task.TimeLimit || e.Steps() < task.TimeLimit && !e.Terminated && !task.Truncates:
		return fmt.Errorf("%w: %d steps, terminated %v, with a time limit of %d",
			proto.ErrInvalid, e.Steps(), e.Terminated, task.TimeLimit)
	}
	if err := task.CheckActions(e.Actions); err != nil {
		return fmt.Errorf("%w: %w", proto.ErrInvalid, err)
	}
	return nil
}
