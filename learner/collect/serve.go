package collect

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// maxComplaints bounds what is logged about wrong messages during a batch.
const maxComplaints = 20

// serve answers one request. Requests come one at a time.
func (c *Collector) serve(m bus.Message) {
	request, err := proto.DecodeRequest(m.Subject, m.Data)
	if err != nil {
		c.respond(m, c.refuse(err))
		return
	}
	now := time.Now()
	switch r := request.(type) {
	case *proto.Ask:
		c.respond(m, c.ask(r, now))
	case *proto.Offer:
		c.respond(m, c.offer(r, now))
	case *proto.Chunk:
		c.respond(m, c.chunk(r, now))
	case *proto.Return:
		c.respond(m, c.giveBack(r, now))
	}
}

// observe learns of other learners of the run.
func (c *Collector) observe(m bus.Message) {
	var a proto.Announcement
	if err := proto.Unmarshal(m.Data, &a); err != nil {
		c.refuse(err)
		return
	}
	if epoch := a.Position.Epoch; epoch > c.config.Epoch {
		signal(c.superseded, fmt.Errorf("%w: epoch %d, after this learner's %d", ErrSuperseded, epoch, c.config.Epoch))
	}
}

// respond sends a reply with the position that holds now.
func (c *Collector) respond(m bus.Message, reply proto.Reply) {
	c.mu.Lock()
	reply.Position, reply.Need = c.position, c.need(time.Now())
	c.mu.Unlock()
	data, err := proto.Marshal(nil, &reply)
	if err == nil {
		err = m.Respond(data)
	}
	// An answer that is lost is asked for again.
	if err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.config.Log.Warn("cannot answer an actor", "error", err)
	}
}

// refuse answers a message that is wrong.
func (c *Collector) refuse(err error) proto.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Refused++
	c.complain("refused a message", "error", err)
	return proto.Reply{Status: proto.Refused, Reason: proto.Reason(err)}
}

// complain logs what an actor does wrong, but does not let it fill the log. c.mu is held.
func (c *Collector) complain(what string, args ...any) {
	if c.complaints++; c.complaints <= maxComplaints {
		c.config.Log.Warn(what, args...)
	}
	if c.complaints == maxComplaints {
		c.config.Log.Warn("more complaints about actors follow, but not in this log until the next batch")
	}
}

// ask gives out a ticket, if there is one.
func (c *Collector) ask(r *proto.Ask, now time.Time) proto.Reply {
	if err := c.checkEngine(r.Engine); err != nil {
		return c.refuse(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A sum of hostile numbers stays a number of steps.
	c.stats.Wasted += int(min(r.Abandoned, uint64(c.config.Task.TimeLimit)))
	if next := c.grant(r.Slot, now); next != nil {
		return proto.Reply{Next: next}
	}
	return proto.Reply{Status: proto.Wait}
}

// grant returns a ticket or nil. c.mu is held.
func (c *Collector) grant(slot proto.Slot, now time.Time) *proto.Ticket {
	if c.current != nil {
		if t, ok := c.current.ledger.Grant(slot, now); ok {
			return &t
		}
	}
	return nil
}

// offer grants the credit to send an episode, if it is wanted and there is credit.
func (c *Collector) offer(r *proto.Offer, now time.Time) proto.Reply {
	if most := c.maxEpisode(); r.Size > most {
		return c.refuse(fmt.Errorf("%w: an episode of %d bytes, %s has at most %d", proto.ErrTooLarge, r.Size, c.config.Task.Name, most))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.wanted(r.Ticket):
		c.countUnwanted(r.Ticket)
		return proto.Reply{Status: proto.Stale}
	case !c.current.uploads.offer(r, now):
		c.current.ledger.Renew(r.Ticket, r.Slot, now)
		return proto.Reply{Status: proto.Wait}
	}
	c.current.ledger.Renew(r.Ticket, r.Slot, now)
	return proto.Reply{}
}

// maxEpisode is the size of the longest episode's encoding.
func (c *Collector) maxEpisode() uint64 {
	o, a, steps := c.config.Task.ObservationDim, c.config.Task.ActionDim, c.config.Task.TimeLimit
	return uint64(steps*(4*(o+a)+8) + 4*o + proto.MaxControl)
}

// wanted reports whether the ticket's episode would be recorded. c.mu is held.
func (c *Collector) wanted(t proto.Ticket) bool {
	return c.current != nil && c.current.ledger.Wanted(t)
}

// countUnwanted counts an episode that would not be recorded. c.mu is held.
func (c *Collector) countUnwanted(t proto.Ticket) {
	if c.current != nil && c.current.ledger.Completed(t) {
		c.stats.Duplicate++
	} else {
		c.stats.Stale++
	}
}

// chunk takes in a part of an episode, and with the last one records it.
func (c *Collector) chunk(r *proto.Chunk, now time.Time) proto.Reply {
	it, data, err := c.assemble(r, now)
	switch {
	case errors.Is(err, errStale):
		return proto.Reply{Status: proto.Stale}
	case errors.Is(err, errRestart):
		return proto.Reply{Status: proto.Wait}
	case err != nil:
		return c.refuse(err)
	case data == nil:
		return proto.Reply{}
	}
	e := new(proto.Episode)
	err = proto.Unmarshal(data, e)
	c.reuse(r, data)
	if err != nil {
		return c.reject(it, r, err)
	}
	if err := c.check(e, r.Ticket); err != nil {
		return c.reject(it, r, err)
	}
	return c.record(it, r, e, now)
}

// errStale is a chunk of an episode that isn't wanted any more.
var errStale = errors.New("the episode is not wanted any more")

// assemble adds a chunk to its upload and returns the encoded episode once it is whole.
func (c *Collector) assemble(r *proto.Chunk, now time.Time) (*iteration, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Bytes += len(r.Data)
	if !c.wanted(r.Ticket) {
		if c.current != nil {
			c.current.uploads.drop(r.Slot)
		}
		c.countUnwanted(r.Ticket)
		return nil, nil, errStale
	}
	c.current.ledger.Renew(r.Ticket, r.Slot, now)
	data, err := c.current.uploads.add(r, now)
	return c.current, data, err
}

// reuse keeps the buffer of an episode that was decoded for others. A chunk's own memory is not worth it.
func (c *Collector) reuse(r *proto.Chunk, data []byte) {
	if inline(r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare.give(data)
}

// check compares an episode with its ticket and the task.
func (c *Collector) check(e *proto.Episode, t proto.Ticket) error {
	task := c.config.Task
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
func (c *Collector) checkEngine(engine string) error {
	if c.config.Engine != "" && engine != c.config.Engine {
		return fmt.Errorf("%w: played on %q, this run wants %q", proto.ErrInvalid, engine, c.config.Engine)
	}
	return nil
}

// reject refuses an episode that is whole but wrong. Its ticket is given out again, unless that happened too often.
func (c *Collector) reject(it *iteration, r *proto.Chunk, err error) proto.Reply {
	c.release(it, r.Ticket, r.Slot, err.Error(), time.Now())
	c.mu.Lock()
	c.stats.Rejected++
	c.mu.Unlock()
	return c.refuse(fmt.Errorf("%v from %v: %w", r.Ticket, r.Slot, err))
}

// release takes a ticket back; one that fails too often ends the iteration.
func (c *Collector) release(it *iteration, t proto.Ticket, slot proto.Slot, reason string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := it.ledger.Release(t, slot, reason, now); err != nil {
		signal(it.failed, err)
	}
	c.wake(it, now)
}

// record enters an episode in the ledger. While there is plenty, the answer brings the slot's next ticket, if it wants
// one; later the slot has to ask for it, which it does when it can play it at once.
func (c *Collector) record(it *iteration, r *proto.Chunk, e *proto.Episode, now time.Time) proto.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != it {
		c.countUnwanted(r.Ticket)
		return proto.Reply{Status: proto.Stale}
	}
	if won, err := it.ledger.Record(e); !won || err != nil {
		c.countUnwanted(r.Ticket)
		return proto.Reply{Status: proto.Stale}
	}
	c.note(r.Slot, e)
	if it.ledger.Complete() {
		c.finish(it, now)
		return proto.Reply{}
	}
	c.wake(it, now)
	if !r.More || !it.ledger.Plenty() {
		return proto.Reply{}
	}
	return proto.Reply{Next: c.grant(r.Slot, now)}
}

// note remembers who sends episodes, and what they run on. c.mu is held.
func (c *Collector) note(slot proto.Slot, e *proto.Episode) {
	if len(c.actors) < maxActors {
		c.actors[slot.Actor] = true
	}
	if len(c.proven) < maxActors {
		c.proven[slot.Actor] = true
	}
	if c.engine == "" {
		c.engine = e.Engine
	}
	if e.Engine != c.engine {
		c.complain("actors run different engines: batches may differ in the last bits from one time to the next",
			"first", c.engine, "now", e.Engine, "actor", slot.Actor)
		c.engine = e.Engine
	}
}

// finish ends the iteration for the actors: what is still being played is not wanted any more. c.mu is held.
func (c *Collector) finish(it *iteration, now time.Time) {
	c.stats.Elapsed = now.Sub(it.started)
	c.position.Iteration++
	c.announceLocked(now)
	close(it.complete)
}

// giveBack takes a ticket back from an actor that leaves, or that could not play it.
func (c *Collector) giveBack(r *proto.Return, now time.Time) proto.Reply {
	c.mu.Lock()
	it := c.current
	if r.Reason != "" {
		c.complain("an episode failed", "ticket", r.Ticket, "slot", r.Slot, "reason", r.Reason)
	}
	c.mu.Unlock()
	if it != nil {
		c.release(it, r.Ticket, r.Slot, r.Reason, now)
	}
	return proto.Reply{}
}
