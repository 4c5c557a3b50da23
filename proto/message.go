package proto

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Ticket names one episode. Its random stream is derived from (Seed, Iteration,
// Index) alone.
type Ticket struct {
	// Run is the run's name.
	Run string
	// Epoch counts how often the run has been taken.
	Epoch uint64
	// Iteration numbers the run's batches: 0 only initialises the normaliser, t+1 is that of the
	// training iteration t.
	Iteration uint64
	// Index counts the tickets of a batch from 0.
	Index uint64
	// Seed is the run's seed.
	Seed uint64
}

// Position returns the position that the ticket belongs to.
func (t Ticket) Position() Position { return Position{Epoch: t.Epoch, Iteration: t.Iteration} }

// String names the ticket in messages.
func (t Ticket) String() string {
	return fmt.Sprintf("%s epoch %d batch %d ticket %d", t.Run, t.Epoch, t.Iteration, t.Index)
}

func (t *Ticket) fields(c codec) {
	c.text("run", &t.Run, MaxName)
	c.number("epoch", &t.Epoch)
	c.number("iteration", &t.Iteration)
	c.number("index", &t.Index)
	c.number("seed", &t.Seed)
}

func (t *Ticket) check() error { return CheckRun(t.Run) }

// A Position is what a learner has reached: the earliest batch whose episodes it still
// wants.
type Position struct {
	Epoch, Iteration uint64
}

// Before reports whether p is overtaken by q.
func (p Position) Before(q Position) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Iteration < q.Iteration
}

func (p *Position) fields(c codec) {
	c.number("epoch", &p.Epoch)
	c.number("iteration", &p.Iteration)
}

// An Announcement describes a run to all actors. It is sent every [AnnounceInterval], in answer to a [Discover], when
// the position changes, and when there are tickets again.
type Announcement struct {
	// Run names the run, Task its task.
	Run, Task string
	Position  Position
	// Engine is the engine that episodes must come from, as in [Episode]; "" means any.
	Engine string
	Need   Need
}

// Need says how many more tickets a learner would issue now.
type Need struct {
	Tickets uint64
	// Stamp grows with each Need that an epoch's learner sends: they may arrive in any order, and the greatest holds.
	Stamp uint64
}

func (n *Need) fields(c codec) {
	c.number("need", &n.Tickets)
	c.number("stamp", &n.Stamp)
}

func (m *Announcement) kind() string { return "announcement" }
func (m *Announcement) limit() int   { return MaxControl }
func (m *Announcement) fields(c codec) {
	c.text("run", &m.Run, MaxName)
	c.text("task", &m.Task, MaxName)
	m.Position.fields(c)
	c.text("engine", &m.Engine, MaxName)
	m.Need.fields(c)
}

func (m *Announcement) check() error {
	return firstError(CheckRun(m.Run), checkText("task", m.Task), checkLength("engine", m.Engine))
}

// Discover asks all learners for an [Announcement]; actors send it when they start.
type Discover struct {
	// Actor names the process.
	Actor string
}

func (m *Discover) kind() string   { return "discover" }
func (m *Discover) limit() int     { return MaxControl }
func (m *Discover) check() error   { return checkText("actor", m.Actor) }
func (m *Discover) fields(c codec) { c.text("actor", &m.Actor, MaxName) }

// A Slot identifies one of an actor's slots, which holds at most one ticket and has at
// most one unacknowledged episode.
type Slot struct {
	// Actor names the process, uniquely.
	Actor string
	// Number counts the actor's slots from 0.
	Number uint64
}

// String names the slot in messages.
func (s Slot) String() string { return fmt.Sprintf("%s/%d", s.Actor, s.Number) }

func (s *Slot) fields(c codec) {
	c.text("actor", &s.Actor, MaxName)
	c.number("slot", &s.Number)
}

func (s *Slot) check() error { return checkText("actor", s.Actor) }

// Ask asks for a ticket. A slot that asks holds none: one issued to it earlier is
// free again.
type Ask struct {
	Slot Slot
	// Engine is the slot's engine, as in [Episode].
	Engine string
	// Digest is of what the actor's build computes for the run's task (rollout.Digest).
	Digest string
	// Abandoned counts the steps of episodes dropped unfinished since the last Ask.
	Abandoned uint64
}

func (m *Ask) kind() string { return "ask" }
func (m *Ask) limit() int   { return MaxControl }
func (m *Ask) check() error {
	return firstError(m.Slot.check(), checkLength("engine", m.Engine), checkLength("digest", m.Digest))
}
func (m *Ask) fields(c codec) {
	m.Slot.fields(c)
	c.text("engine", &m.Engine, MaxName)
	c.text("digest", &m.Digest, MaxName)
	c.number("abandoned", &m.Abandoned)
}

// Offer asks for credit to send an encoded episode of Size bytes.
type Offer struct {
	Slot   Slot
	Ticket Ticket
	Size   uint64
}

func (m *Offer) kind() string { return "offer" }
func (m *Offer) limit() int   { return MaxControl }
func (m *Offer) fields(c codec) {
	m.Slot.fields(c)
	c.record("ticket", &m.Ticket)
	c.number("size", &m.Size)
}

func (m *Offer) check() error {
	if m.Size == 0 || m.Size > MaxEpisode {
		return fmt.Errorf("size: %w: %d bytes, 1 to %d are allowed", ErrTooLarge, m.Size, MaxEpisode)
	}
	return firstError(m.Slot.check(), m.Ticket.check())
}

// A Chunk is part Part of the Parts that an encoded episode was cut into.
type Chunk struct {
	Slot   Slot
	Ticket Ticket
	Part   uint64 // from 0
	Parts  uint64
	// More asks for the slot's next ticket with the answer to the last part.
	More bool
	Data []byte
}

func (m *Chunk) kind() string { return "chunk" }
func (m *Chunk) limit() int   { return MaxChunk }
func (m *Chunk) fields(c codec) {
	m.Slot.fields(c)
	c.record("ticket", &m.Ticket)
	c.number("part", &m.Part)
	c.number("parts", &m.Parts)
	c.flag("more", &m.More)
	c.bytes("data", &m.Data)
}

func (m *Chunk) check() error {
	if m.Part >= m.Parts {
		return fmt.Errorf("part: %w: part %d of %d", ErrInvalid, m.Part, m.Parts)
	}
	if len(m.Data) == 0 {
		return fmt.Errorf("data: %w: no bytes", ErrInvalid)
	}
	return firstError(m.Slot.check(), m.Ticket.check())
}

// Return returns a ticket unplayed, because the actor leaves (no Reason) or because
// the episode failed.
type Return struct {
	Slot   Slot
	Ticket Ticket
	Reason string
}

func (m *Return) kind() string { return "return" }
func (m *Return) limit() int   { return MaxControl }
func (m *Return) check() error { return firstError(m.Slot.check(), m.Ticket.check()) }
func (m *Return) fields(c codec) {
	m.Slot.fields(c)
	c.record("ticket", &m.Ticket)
	c.text("reason", &m.Reason, MaxReason)
}

// Status is the learner's answer to a request.
type Status uint64

// The answers.
const (
	// OK grants what was asked, or acknowledges what was sent.
	OK Status = iota
	// Wait: nothing to do now, or no credit; ask again later. An upload in progress
	// starts over with its offer.
	Wait
	// Stale: the episode is no longer wanted; drop it and ask for a ticket.
	Stale
	// Refused: the message is invalid, and would be the next time. Reason says why.
	Refused

	statuses
)

// String names the status.
func (s Status) String() string {
	if s >= statuses {
		return fmt.Sprintf("status %d", uint64(s))
	}
	return [...]string{"ok", "wait", "stale", "refused"}[s]
}

// A Reply is the learner's answer to any request.
type Reply struct {
	Status   Status
	Position Position
	Need     Need
	// Next is a ticket to play, or nil. It answers an Ask, and accompanies the
	// acknowledgement of an episode if More is set, to save an Ask.
	Next *Ticket
	// Start makes Next the ticket of a segment; nil: of a whole episode.
	Start *Start
	// Reason says why a request was refused.
	Reason string
}

func (m *Reply) kind() string { return "reply" }
func (m *Reply) limit() int   { return MaxControl + MaxState }
func (m *Reply) fields(c codec) {
	c.number("status", (*uint64)(&m.Status))
	m.Position.fields(c)
	m.Need.fields(c)
	optional(c, "next", &m.Next)
	optional(c, "start", &m.Start)
	c.text("reason", &m.Reason, MaxReason)
}

func (m *Reply) check() error {
	if m.Status >= statuses {
		return fmt.Errorf("status: %w: %d", ErrInvalid, m.Status)
	}
	if m.Next == nil {
		if m.Start != nil {
			return fmt.Errorf("start: %w: a segment without a ticket", ErrInvalid)
		}
		return nil
	}
	if m.Start != nil {
		if err := m.Start.check(); err != nil {
			return err
		}
	}
	return m.Next.check()
}

// Reason shortens an error's text to what a message may hold. It leaves out the middle: a text begins with what failed, and
// that of another program may end with why.
func Reason(err error) string {
	const gap = " ... "
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) <= MaxReason {
		return text
	}
	first, last := MaxReason/2, len(text)-MaxReason/2+len(gap)
	for !utf8.RuneStart(text[first]) {
		first--
	}
	for !utf8.RuneStart(text[last]) {
		last++
	}
	return text[:first] + gap + text[last:]
}

// checkText returns an error for a name that is empty or too long.
func checkText(field, s string) error {
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%s: %w: a name of %d bytes, 1 to %d are allowed", field, ErrInvalid, len(s), MaxName)
	}
	return nil
}

// checkLength returns an error for a text that is too long.
func checkLength(field, s string) error {
	if len(s) > MaxName {
		return fmt.Errorf("%s: %w: %d bytes", field, ErrTooLarge, len(s))
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
