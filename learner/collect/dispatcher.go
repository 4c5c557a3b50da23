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
	dry      bool            // actors were told that there is no ticket
	news     bool            // an announcement should be sent at once
	stamp    uint64          // of the last statement of the need
	stats    Stats           // since the last batch
	actors   map[string]bool // that sent episodes since the last batch
	spare    buffers         // for uploads
	trust    trust

	complaints int // about actors, since the last batch
}

// iteration is a batch being collected.
type iteration struct {
	ledger   *Ledger
	segments *segments // nil if tickets are for whole episodes
	policy   []byte    // encoded
	uploads  *uploads
	started  time.Time
	complete chan struct{} // closed when the ledger is complete
	failed   chan error    // holds an element if the batch can never be complete
}

func newDispatcher(config Config, shut map[string]string) *dispatcher {
	return &dispatcher{
		config:   config,
		position: proto.Position{Epoch: config.Epoch},
		lengths:  Lengths{Mean: float64(config.Task.TimeLimit)},
		actors:   make(map[string]bool),
		trust:    trust{faults: make(map[string]int), shut: shut},
	}
}

// begin starts an iteration: of whole episodes, or of a segment of each stream.
func (d *dispatcher) begin(number uint64, minSteps int, segments *segments, policy []byte, now time.Time) *iteration {
	first := d.ticket(number)
	d.position.Batch = number
	lengths := d.lengths
	if segments != nil {
		// none is longer, so that no more tickets than streams are issued
		lengths = Lengths{Mean: float64(segments.length(0))}
	}
	clear(d.trust.faults)
	d.current = &iteration{
		ledger:   NewLedger(first, minSteps, lengths, d.config.Lease),
		segments: segments,
		policy:   policy,
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
	return proto.Ticket{Run: d.config.Run, Epoch: d.config.Epoch, Batch: number, Seed: d.config.Seed}
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
		Run: d.config.Run, Task: d.config.Task.Name, Position: d.position, Need: d.need(now),
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
	if reason := d.trust.shut[accountable(*request.Sender())]; reason != "" {
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
		return d.refuse(fmt.Errorf("%w: %s computes %s otherwise (digest %.12s on %s) than the learner (%.12s): "+
			"run the same release on machines whose results agree",
			proto.ErrInvalid, r.Slot.Actor, d.config.Task.Name, r.Digest, r.Engine, d.config.digest))
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
	l := d.current.ledger
	if t, ok := l.Grant(slot, now); ok {
		reply.Next, reply.Start = &t, d.current.segments.start(t)
	}
	for _, t := range l.lost {
		d.dispute(t, proto.Slot{}, "it was never answered for")
	}
	l.lost = nil
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
	d.current.ledger.Renew(r.Ticket, r.Slot, now)
	if !d.current.uploads.offer(r, now) {
		return proto.Reply{Status: proto.Wait}
	}
	return proto.Reply{}
}

// wanted reports whether the ticket's episode would be recorded if it came from a slot.
func (d *dispatcher) wanted(t proto.Ticket, slot proto.Slot) bool {
	return d.current != nil && d.current.ledger.Wanted(t) && d.current.ledger.Holds(t, slot)
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
	sum := d.sample(data)
	if !inline(r) { // a single chunk's memory is not worth keeping
		d.spare.give(data)
	}
	if err != nil {
		return d.reject(r, err, now)
	}
	return d.record(r, episodes, after, sum, now)
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

// reject refuses a complete but invalid episode.
func (d *dispatcher) reject(r *proto.Chunk, err error, now time.Time) proto.Reply {
	d.dispute(r.Ticket, r.Slot, err.Error())
	d.wake(now)
	d.stats.Rejected++
	return d.refuse(fmt.Errorf("%v from %v: %w", r.Ticket, r.Slot, err))
}

// record enters a ticket's episodes in the ledger. While there is plenty, the answer brings the slot's next ticket, if
// it wants one; later the slot has to ask for it, which it does when it can play it at once.
func (d *dispatcher) record(
	r *proto.Chunk, episodes []*proto.Episode, after Stream, sum *sum, now time.Time,
) proto.Reply {
	l := d.current.ledger
	if !d.enter(r.Ticket, episodes, after, now) {
		return d.stale(r.Ticket)
	}
	if len(d.actors) < maxActors {
		d.actors[r.Slot.Actor] = true
	}
	if sum != nil {
		d.trust.cases = append(d.trust.cases, d.newCase(r.Ticket, r.Slot, episodes[0].Engine, sum))
	}
	if !r.More || l.Complete() || !l.Plenty() {
		return proto.Reply{}
	}
	return d.grant(r.Slot, now)
}

// maxActors bounds the number of actors that are counted.
const maxActors = 4096

// enter enters a ticket's episodes in the ledger, and reports whether it had none.
func (d *dispatcher) enter(t proto.Ticket, episodes []*proto.Episode, after Stream, now time.Time) bool {
	if won, err := d.current.ledger.Record(episodes...); !won || err != nil {
		return false
	}
	if s := d.current.segments; s != nil {
		s.after[t.Index] = after
	}
	if d.current.ledger.Complete() {
		d.finish(now)
	} else {
		d.wake(now)
	}
	return true
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
	if r.Reason != "" {
		d.complain("an episode failed", "ticket", r.Ticket, "slot", r.Slot, "reason", r.Reason)
	}
	switch {
	case d.current == nil || !d.current.ledger.Holds(r.Ticket, r.Slot):
	case r.Reason != "":
		d.dispute(r.Ticket, r.Slot, r.Reason)
	default:
		d.current.ledger.Release(r.Ticket)
		d.wake(now)
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

// segmentSteps returns the greatest length of the segments being collected, 0 if there are none.
func (d *dispatcher) segmentSteps() int {
	if d.current == nil || d.current.segments == nil {
		return 0
	}
	return d.current.segments.length(0)
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
