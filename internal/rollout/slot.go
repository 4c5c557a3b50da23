package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/proto"
)

// creditInterval is the pause before credit is asked for again.
const creditInterval = 20 * time.Millisecond

// slot holds one ticket at a time: it plays the episode when an executor is free, and uploads it while another slot
// has that executor. With each ticket it may move to another run.
type slot struct {
	*actor
	id       proto.Slot
	outcome  chan outcome  // of playOn
	leaving  atomic.Bool   // ctx is done
	ticket   *proto.Ticket // the ticket held, nil if none
	start    *proto.Start  // where its segment starts, nil if it is for a whole episode
	of       *run          // its run
	next     *run          // the run chosen for the next ticket, if any
	encoded  []byte        // the episode
	outgoing []byte        // the request being sent
}

// outcome is the result of playOn.
type outcome struct {
	played bool            // there is an episode to send
	rest   time.Duration   // otherwise: how long to wait
	woken  <-chan struct{} // or until this is closed
	err    error           // ends the actor
}

func newSlot(a *actor, number int) *slot {
	id := proto.Slot{Actor: a.name, Number: uint64(number)}
	return &slot{actor: a, id: id, outcome: make(chan outcome, 1)}
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
		case s.ready <- s:
		}
		switch o := <-s.outcome; {
		case o.err != nil:
			return o.err
		case o.played:
			s.upload(ctx)
		default:
			start := time.Now()
			pause(ctx, o.woken, o.rest)
			s.Metrics.Waiting.Add(time.Since(start).Seconds())
		}
	}
	return nil
}

// playOn uses an executor: it asks for a ticket unless the slot has one, plays it and encodes the episode.
func (s *slot) playOn(ctx context.Context, executor *executor) outcome {
	woken := s.runs.woken()
	if s.ticket == nil {
		if !s.choose() {
			return outcome{rest: idleInterval, woken: woken}
		}
		if err := s.ask(ctx, executor); err != nil || s.ticket == nil {
			return outcome{err: err} // without a ticket, another run may have one
		}
	}
	t := *s.ticket
	p, err := s.of.policyOf(ctx, s.store, t)
	switch {
	case fatal(err):
		s.giveBack("")
		return outcome{err: s.giveUp(s.of, err)}
	case err != nil && s.of.stale(t):
		s.ticket = nil
		return outcome{}
	case err != nil:
		s.logOf(t).Info("cannot get a ticket's policy", "ticket", t, "reason", err)
		s.giveBack("")
		return outcome{rest: idleInterval, woken: woken}
	}
	if err := executor.prepare(p, s.NewEnv); err != nil {
		s.giveBack("")
		return outcome{err: s.giveUp(s.of, err)}
	}
	switch played, err := s.play(executor); {
	case err != nil: // others go first
		s.logOf(t).Warn("an episode failed", "ticket", t, "error", err)
		s.giveBack(proto.Reason(err))
		return outcome{rest: creditInterval, woken: woken}
	default:
		return outcome{played: played}
	}
}

// choose selects the run to ask for the next ticket. It reports whether there is one.
func (s *slot) choose() bool {
	if s.next == nil || s.next.gone.Load() {
		s.next = s.runs.choose(rand.Float64())
	}
	return s.next != nil
}

// play plays the ticket until it ends, becomes stale or the actor leaves.
func (s *slot) play(executor *executor) (played bool, err error) {
	t, start := *s.ticket, time.Now()
	defer s.span("play", t)(&err)
	e, err := executor.play(t, s.start, func() bool { return s.leaving.Load() || s.of.stale(t) })
	s.Metrics.Steps.Add(float64(executor.player.StepsPlayed()))
	if errors.Is(err, ErrStopped) {
		if s.of.stale(t) {
			s.drop(observe.Stale)
		}
		return false, nil
	}
	if err != nil {
		s.Metrics.Episodes.WithLabelValues(observe.Failed).Inc()
		return false, err
	}
	s.Metrics.Playing.Observe(time.Since(start).Seconds())
	e.PlayedOn(s.Engine)
	s.encoded, err = proto.Marshal(s.encoded[:0], e)
	return err == nil, err
}

// ask asks the chosen run for a ticket. If there is none, s.ticket stays nil.
func (s *slot) ask(ctx context.Context, executor *executor) error {
	r := s.next
	s.next = nil
	digest, err := s.digests.of(r.task, executor, s.NewEnv)
	if err != nil {
		return s.giveUp(r, fmt.Errorf("task %s of run %s: %w", r.task, r.name, err))
	}
	reply, err := s.request(ctx, r, r.position.Load().Epoch, &proto.Ask{
		Slot: s.id, Engine: s.Engine, Digest: digest,
	})
	switch {
	case fatal(err):
		return s.giveUp(r, err)
	case err != nil:
		if s.warnings.Now() {
			s.Log.Info("waiting for a run's learner", "run", r.name, "reason", err)
		}
	case reply.Status == proto.Refused:
		return s.giveUp(r, fmt.Errorf("the learner of run %s refuses this actor: %s", r.name, reply.Reason))
	default:
		s.ticket, s.start, s.of = reply.Next, reply.Start, r
	}
	return nil
}

// giveBack returns the ticket, if any, to the learner, which then need not wait for its lease to expire.
func (s *slot) giveBack(reason string) {
	if s.ticket == nil {
		return
	}
	t := *s.ticket
	s.ticket = nil
	farewell := &proto.Return{Slot: s.id, Ticket: t, Reason: reason}
	if _, err := s.request(context.Background(), s.of, t.Epoch, farewell); err != nil {
		s.logOf(t).Info("could not return a ticket, which will expire", "ticket", t, "reason", err)
	}
}

// drop discards the ticket and counts the outcome of its episode.
func (s *slot) drop(outcome string) {
	s.ticket = nil
	s.Metrics.Episodes.WithLabelValues(outcome).Inc()
}

// span begins a span in the trace of the ticket's iteration.
func (s *slot) span(name string, t proto.Ticket) (end func(*error)) {
	return s.Metrics.Span(name, t.Run, t.Epoch, t.Batch, t.Index)
}

// logOf returns the log for messages about a ticket.
func (s *slot) logOf(t proto.Ticket) *slog.Logger {
	return s.Log.With("run", t.Run, "batch", t.Batch)
}

// upload sends the ticket's episode until the learner has acknowledged or refused it. It starts over after every
// failure; sending twice does no harm. The reply brings the next ticket if there are many and the slot stays with the
// run.
func (s *slot) upload(ctx context.Context) {
	t := *s.ticket
	defer s.span("upload", t)(nil)
	s.choose()
	for ctx.Err() == nil && !s.of.stale(t) {
		woken := s.runs.woken()
		reply, err := s.send(ctx, t)
		if err != nil {
			if ctx.Err() == nil && s.warnings.Now() {
				s.logOf(t).Info("cannot send an episode; retrying", "ticket", t, "reason", err)
			}
			s.Metrics.UploadRetries.Inc()
			pause(ctx, woken, idleInterval)
			continue
		}
		switch reply.Status {
		case proto.OK:
			s.drop(observe.Accepted)
			if s.ticket, s.start = reply.Next, reply.Start; s.ticket != nil {
				s.next = nil
			}
			return
		case proto.Wait:
			pause(ctx, woken, creditInterval)
		case proto.Stale:
			s.drop(observe.Stale)
			return
		case proto.Refused:
			s.logOf(t).Warn("the learner refused an episode", "ticket", t, "reason", reply.Reason)
			s.drop(observe.Rejected)
			return
		}
	}
	if s.of.stale(t) {
		s.drop(observe.Stale)
	}
}

// send makes one attempt: the offer, if the episode is large, and its chunks. It returns the last reply, or the first
// that isn't OK.
func (s *slot) send(ctx context.Context, t proto.Ticket) (*proto.Reply, error) {
	data := s.encoded
	size := proto.ChunkSize(s.Conn.MaxPayload())
	if size < 1 {
		return nil, fmt.Errorf("%w: the server takes messages of %d bytes", proto.ErrTooLarge, s.Conn.MaxPayload())
	}
	parts := (len(data) + size - 1) / size
	if parts > 1 || len(data) > proto.InlineEpisode {
		reply, err := s.request(ctx, s.of, t.Epoch, &proto.Offer{Slot: s.id, Ticket: t, Size: uint64(len(data))})
		if err != nil || reply.Status != proto.OK {
			return reply, err
		}
	}
	for part := 0; ; part++ {
		chunk := &proto.Chunk{
			Slot: s.id, Ticket: t, Part: uint64(part), Parts: uint64(parts), More: s.next == s.of,
			Data: data[part*size : min((part+1)*size, len(data))],
		}
		s.Metrics.SentBytes.Add(float64(len(chunk.Data)))
		reply, err := s.request(ctx, s.of, t.Epoch, chunk)
		if err != nil || reply.Status != proto.OK || part == parts-1 {
			return reply, err
		}
	}
}

// request sends one request to a run's learner in an epoch and processes the reply. It isn't cancelled when ctx is
// done: the reply may bring a ticket, which must not be lost.
func (s *slot) request(ctx context.Context, r *run, epoch uint64, m proto.Request) (*proto.Reply, error) {
	var err error
	if s.outgoing, err = proto.Marshal(s.outgoing[:0], m); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	data, err := s.Conn.Request(ctx, r.subjects.Request(epoch, m, s.Conn.Member()), s.outgoing)
	reply := new(proto.Reply)
	if err == nil {
		err = proto.Unmarshal(data, reply)
	}
	if err != nil {
		s.runs.missed(r, err, time.Now())
		return nil, err
	}
	_, asked := m.(*proto.Ask)
	s.runs.replied(r, reply, asked && reply.Next == nil, time.Now())
	return reply, nil
}
