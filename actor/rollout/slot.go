package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

// creditInterval is the pause before credit is asked for again.
const creditInterval = 20 * time.Millisecond

// slot has one ticket at a time: it plays the episode when a seat has a turn for it, and sends the episode while
// another slot has that seat.
type slot struct {
	*worker
	id       proto.Slot
	outcome  chan outcome  // of its turn
	leaving  atomic.Bool   // ctx is done
	ticket   *proto.Ticket // the ticket held, nil if none
	steps    int           // of its episode, once played
	wasted   int           // steps abandoned since the last Ask
	encoded  []byte        // the episode
	outgoing []byte        // the request being sent
}

// outcome is what came of a turn.
type outcome struct {
	played bool            // there is an episode to send
	rest   time.Duration   // otherwise: how long to wait
	woken  <-chan struct{} // unless there is an announcement
	err    error           // ends the actor
}

func newSlot(w *worker, number int) *slot {
	return &slot{worker: w, id: proto.Slot{Actor: w.name, Number: uint64(number)}, outcome: make(chan outcome, 1)}
}

// run plays tickets and sends the episodes, until ctx is done.
func (s *slot) run(ctx context.Context) error {
	unhook := context.AfterFunc(ctx, func() { s.leaving.Store(true) })
	defer unhook()
	defer s.giveBack("")
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return nil
		case s.turns <- s:
		}
		switch o := <-s.outcome; {
		case o.err != nil:
			return o.err
		case o.played:
			s.upload(ctx)
		default:
			pause(ctx, o.woken, o.rest)
		}
	}
	return nil
}

// turn is a slot's time on a seat: it asks for a ticket, unless it has one, plays it and encodes the episode.
func (s *slot) turn(ctx context.Context, seat *seat) outcome {
	woken := s.woken()
	if s.ticket == nil {
		if err := s.ask(ctx); err != nil {
			return outcome{err: err}
		}
	}
	if s.ticket == nil {
		return outcome{rest: idleInterval, woken: woken}
	}
	t := *s.ticket
	p, err := s.policyOf(ctx, t)
	switch {
	case fatal(err):
		return outcome{err: err}
	case err != nil && s.stale(t):
		s.ticket = nil
		return outcome{}
	case err != nil:
		s.Log.Info("cannot get a ticket's policy", "ticket", t, "reason", err)
		s.giveBack("")
		return outcome{rest: idleInterval, woken: woken}
	}
	if err := seat.prepare(p, s.NewEnv); err != nil {
		return outcome{err: err}
	}
	switch played, err := s.play(seat); {
	case err != nil: // others go first
		s.Log.Warn("an episode failed", "ticket", t, "error", err)
		s.giveBack(proto.Reason(err))
		return outcome{rest: creditInterval, woken: woken}
	default:
		return outcome{played: played}
	}
}

// play plays the ticket, unless it becomes stale or the actor is to leave.
func (s *slot) play(seat *seat) (played bool, err error) {
	t := *s.ticket
	e, err := seat.player.Play(seat.actor, t, func() bool { return s.leaving.Load() || s.stale(t) })
	if errors.Is(err, ErrStopped) {
		s.wasted += seat.player.StepsPlayed()
		if s.stale(t) {
			s.ticket = nil
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e.Engine, s.steps = s.Engine, e.Steps()
	s.encoded, err = proto.Marshal(s.encoded[:0], e)
	return err == nil, err
}

// ask asks for a ticket. If there is none, ticket is still nil.
func (s *slot) ask(ctx context.Context) error {
	reply, err := s.request(ctx, s.position.Load().Epoch, &proto.Ask{Slot: s.id, Abandoned: uint64(s.wasted)})
	switch {
	case fatal(err):
		return err
	case err != nil:
		if s.warnings.Now() {
			s.Log.Info("waiting for the run's learner", "run", s.Run, "reason", err)
		}
		// A learner that was replaced is found through the policy of the next one.
		if _, err := s.read(ctx); fatal(err) {
			return err
		}
	case reply.Status == proto.Refused:
		return fmt.Errorf("the learner of run %s refuses this actor: %s", s.Run, reply.Reason)
	default:
		s.wasted = 0
		s.ticket = reply.Next
	}
	return nil
}

// giveBack returns the ticket held, if any, so that the learner need not wait for its lease to expire.
func (s *slot) giveBack(reason string) {
	if s.ticket == nil {
		return
	}
	t := *s.ticket
	s.ticket = nil
	if _, err := s.request(context.Background(), t.Epoch, &proto.Return{Slot: s.id, Ticket: t, Reason: reason}); err != nil {
		s.Log.Info("a ticket is left to expire", "ticket", t, "reason", err)
	}
}

// upload sends the ticket's episode until the learner has answered for it. It starts again after every loss; what is
// sent twice does no harm. The answer brings the next ticket, if there are many.
func (s *slot) upload(ctx context.Context) {
	t := *s.ticket
	for ctx.Err() == nil && !s.stale(t) {
		woken := s.woken()
		reply, err := s.send(ctx, t)
		if err != nil {
			if ctx.Err() == nil && s.warnings.Now() {
				s.Log.Info("cannot send an episode; trying again", "ticket", t, "reason", err)
			}
			pause(ctx, woken, idleInterval)
			continue
		}
		switch reply.Status {
		case proto.OK:
			s.ticket = reply.Next
			return
		case proto.Wait:
			pause(ctx, woken, creditInterval)
		case proto.Stale:
			s.wasted += s.steps
			s.ticket = nil
			return
		case proto.Refused:
			s.Log.Warn("the learner refused an episode", "ticket", t, "reason", reply.Reason)
			s.ticket = nil
			return
		}
	}
	if s.stale(t) {
		s.wasted += s.steps
		s.ticket = nil
	}
}

// send makes one attempt: the offer, if the episode is large, and its chunks. It returns the last answer, or the first
// that isn't OK.
func (s *slot) send(ctx context.Context, t proto.Ticket) (*proto.Reply, error) {
	data := s.encoded
	size := proto.ChunkSize(s.Conn.MaxPayload())
	if size < 1 {
		return nil, fmt.Errorf("%w: the server takes messages of %d bytes", proto.ErrTooLarge, s.Conn.MaxPayload())
	}
	parts := (len(data) + size - 1) / size
	if parts > 1 || len(data) > proto.InlineEpisode {
		reply, err := s.request(ctx, t.Epoch, &proto.Offer{Slot: s.id, Ticket: t, Size: uint64(len(data))})
		if err != nil || reply.Status != proto.OK {
			return reply, err
		}
	}
	for part := 0; ; part++ {
		chunk := &proto.Chunk{
			Slot: s.id, Ticket: t, Part: uint64(part), Parts: uint64(parts),
			Data: data[part*size : min((part+1)*size, len(data))],
		}
		reply, err := s.request(ctx, t.Epoch, chunk)
		if err != nil || reply.Status != proto.OK || part == parts-1 {
			return reply, err
		}
	}
}

// request sends one request to an epoch's learner and takes in its answer. It isn't cut short when ctx is done: the
// answer may bring a ticket, which must not be lost.
func (s *slot) request(ctx context.Context, epoch uint64, m proto.Message) (*proto.Reply, error) {
	var err error
	if s.outgoing, err = proto.Marshal(s.outgoing[:0], m); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	data, err := s.Conn.Request(ctx, s.subjects.Request(epoch, m), s.outgoing)
	if err != nil {
		return nil, err
	}
	reply := new(proto.Reply)
	if err := proto.Unmarshal(data, reply); err != nil {
		return nil, err
	}
	s.advance(reply.Position)
	return reply, nil
}
