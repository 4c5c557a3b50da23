package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// creditInterval is the pause before credit is asked for again.
const creditInterval = 20 * time.Millisecond

// slot plays one ticket at a time.
type slot struct {
	*worker
	id       proto.Slot
	leaving  atomic.Bool   // ctx is done
	ticket   *proto.Ticket // the ticket held, nil if none
	env      sim.Env
	player   *Player
	version  *proto.Policy // the policy that actor evaluates
	actor    *policy.Actor
	wasted   int    // steps abandoned since the last Ask
	encoded  []byte // the episode being sent
	outgoing []byte // the request being sent
}

func newSlot(w *worker, number int) *slot {
	return &slot{worker: w, id: proto.Slot{Actor: w.name, Number: uint64(number)}}
}

// run asks for tickets, plays them and sends the episodes, until ctx is done.
func (s *slot) run(ctx context.Context) error {
	defer s.close()
	unhook := context.AfterFunc(ctx, func() { s.leaving.Store(true) })
	defer unhook()
	defer s.giveBack("")
	for ctx.Err() == nil {
		if s.ticket == nil {
			if err := s.ask(ctx); err != nil {
				return err
			}
			continue
		}
		e, err := s.play(ctx)
		if err != nil {
			return err
		}
		if e != nil {
			s.upload(ctx, e)
		}
	}
	return nil
}

func (s *slot) close() {
	if s.env != nil {
		if err := s.env.Close(); err != nil {
			s.Log.Warn("closing an environment", "error", err)
		}
	}
}

// ask asks for a ticket. If there is none it waits for a while; then ticket is still nil.
func (s *slot) ask(ctx context.Context) error {
	woken := s.woken()
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
	if s.ticket == nil {
		pause(ctx, woken, idleInterval)
	}
	return nil
}

// play plays the ticket. It returns nil without an error if there is nothing to send: the ticket is stale, or was given
// back. An error ends the actor.
func (s *slot) play(ctx context.Context) (*proto.Episode, error) {
	t := *s.ticket
	p, err := s.policyOf(ctx, t)
	switch {
	case fatal(err):
		return nil, err
	case err != nil && s.stale(t):
		s.ticket = nil
		return nil, nil
	case err != nil:
		s.Log.Info("cannot get a ticket's policy", "ticket", t, "reason", err)
		woken := s.woken()
		s.giveBack("")
		pause(ctx, woken, idleInterval)
		return nil, nil
	}
	if err := s.prepare(p); err != nil {
		return nil, err
	}
	e, err := s.player.Play(s.actor, t, func() bool { return s.leaving.Load() || s.stale(t) })
	switch {
	case errors.Is(err, ErrStopped):
		s.wasted += s.player.StepsPlayed()
		if s.stale(t) {
			s.ticket = nil
		}
		return nil, nil
	case err != nil:
		s.fail(ctx, err)
		return nil, nil
	}
	e.Engine = s.Engine
	return e, nil
}

// prepare makes the environment and the actor for a policy, unless they are there.
func (s *slot) prepare(p *proto.Policy) error {
	if s.version == p {
		return nil
	}
	if s.env == nil || s.env.Spec().Name != p.Task {
		s.close()
		env, err := s.NewEnv(p.Task)
		if err != nil {
			return fmt.Errorf("task %s of run %s: %w", p.Task, s.Run, err)
		}
		s.env, s.player = env, NewPlayer(env)
	}
	spec := s.env.Spec()
	shape := policy.Shape{Observation: spec.ObservationDim, Action: spec.ActionDim, Hidden: p.Hidden}
	actor, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		return fmt.Errorf("the policy of run %s, iteration %d: %w", s.Run, p.Iteration, err)
	}
	s.version, s.actor = p, actor
	return nil
}

// fail gives a ticket back whose episode failed, and lets others go first.
func (s *slot) fail(ctx context.Context, err error) {
	s.Log.Warn("an episode failed", "ticket", *s.ticket, "error", err)
	woken := s.woken()
	s.giveBack(proto.Reason(err))
	pause(ctx, woken, creditInterval)
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

// upload sends an episode until the learner has answered for it. It starts again after every loss; what is sent twice
// does no harm. The answer brings the next ticket, if there is one.
func (s *slot) upload(ctx context.Context, e *proto.Episode) {
	var err error
	if s.encoded, err = proto.Marshal(s.encoded[:0], e); err != nil {
		s.fail(ctx, err)
		return
	}
	for ctx.Err() == nil && !s.stale(e.Ticket) {
		woken := s.woken()
		reply, err := s.send(ctx, e.Ticket)
		if err != nil {
			if ctx.Err() == nil && s.warnings.Now() {
				s.Log.Info("cannot send an episode; trying again", "ticket", e.Ticket, "reason", err)
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
			s.wasted += e.Steps()
			s.ticket = nil
			return
		case proto.Refused:
			s.Log.Warn("the learner refused an episode", "ticket", e.Ticket, "reason", reply.Reason)
			s.ticket = nil
			return
		}
	}
	if s.stale(e.Ticket) {
		s.wasted += e.Steps()
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
