package proto

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Ticket names one episode. Its random stream is derived from (Seed, Batch, Index) alone.
type Ticket struct {
	// Run is the run's name.
	Run string
	// Epoch counts how often the run has been taken.
	Epoch uint64
	// Batch counts the run's batches from 0. Batch 0 initialises the normaliser; iteration t trains on batch t+1.
	Batch uint64
	// Index counts the tickets of a batch from 0.
	Index uint64
	// Seed is the run's seed.
	Seed uint64
}

// Position returns the position that the ticket belongs to.
func (t Ticket) Position() Position { return Position{Epoch: t.Epoch, Batch: t.Batch} }

// String names the ticket in messages.
func (t Ticket) String() string {
	return fmt.Sprintf("%s epoch %d batch %d ticket %d", t.Run, t.Epoch, t.Batch, t.Index)
}

func (t *Ticket) check() error { return CheckRun(t.Run) }

// A Position is a learner's progress: the earliest batch whose episodes it still wants.
type Position struct {
	Epoch, Batch uint64
}

// Before reports whether p is overtaken by q.
func (p Position) Before(q Position) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Batch < q.Batch
}

// An Announcement describes a run to all actors. It is sent every [AnnounceInterval], in answer to a message on [DiscoverSubject], when
// the position changes, and when there are tickets again.
type Announcement struct {
	// Run names the run, Task its task.
	Run, Task string
	Position  Position
	Need      Need
}

// Need says how many more tickets a learner would issue now.
type Need struct {
	Tickets uint64
	// Stamp grows with each Need that an epoch's learner sends: they may arrive in any order, and the greatest holds.
	Stamp uint64
}

func (m *Announcement) kind() string { return "announcement" }
func (m *Announcement) limit() int   { return MaxControl }
func (m *Announcement) check() error { return firstError(CheckRun(m.Run), checkName("task", m.Task)) }

// Ended says that a run has been trained to its end. It follows the run's last [Announcement] on the same subject.
type Ended struct {
	Run string
}

func (m *Ended) kind() string { return "ended" }
func (m *Ended) limit() int   { return MaxControl }
func (m *Ended) check() error { return CheckRun(m.Run) }

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

func (s *Slot) check() error { return checkName("actor", s.Actor) }

// A Request is a message from one of an actor's slots: an [Ask], [Offer], [Chunk] or [Return].
type Request interface {
	Message
	// Sender returns the message's Slot.
	Sender() *Slot
}

// Ask asks for a ticket. A slot that asks holds none: one issued to it earlier is
// free again.
type Ask struct {
	Slot Slot
	// Engine is the slot's engine, as in [Episode].
	Engine string
	// Digest identifies the results of the actor's build for the run's task (rollout.Digest).
	Digest string
}

// Sender implements [Request].
func (m *Ask) Sender() *Slot { return &m.Slot }

func (m *Ask) kind() string { return "ask" }
func (m *Ask) limit() int   { return MaxControl }
func (m *Ask) check() error {
	return firstError(m.Slot.check(),
		checkLength("engine", m.Engine, MaxName), checkLength("digest", m.Digest, MaxName))
}

// Offer asks for credit to send an encoded episode of Size bytes.
type Offer struct {
	Slot   Slot
	Ticket Ticket
	Size   uint64
}

// Sender implements [Request].
func (m *Offer) Sender() *Slot { return &m.Slot }

func (m *Offer) kind() string { return "offer" }
func (m *Offer) limit() int   { return MaxControl }
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
	Data Bytes
}

// Sender implements [Request].
func (m *Chunk) Sender() *Slot { return &m.Slot }

func (m *Chunk) kind() string { return "chunk" }
func (m *Chunk) limit() int   { return MaxChunk }
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

// Sender implements [Request].
func (m *Return) Sender() *Slot { return &m.Slot }

func (m *Return) kind() string { return "return" }
func (m *Return) limit() int   { return MaxControl }
func (m *Return) check() error {
	return firstError(m.Slot.check(), m.Ticket.check(), checkLength("reason", m.Reason, MaxReason))
}

// Status is the learner's answer to a request.
type Status uint64

// The answers.
const (
	// OK grants a request, or acknowledges an episode.
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
func (m *Reply) check() error {
	if m.Status >= statuses {
		return fmt.Errorf("status: %w: %d", ErrInvalid, m.Status)
	}
	if err := checkLength("reason", m.Reason, MaxReason); err != nil || m.Next == nil && m.Start == nil {
		return err
	}
	if m.Next == nil {
		return fmt.Errorf("start: %w: a segment without a ticket", ErrInvalid)
	}
	if m.Start == nil {
		return m.Next.check()
	}
	return firstError(m.Start.check(), m.Next.check())
}

// Reason shortens an error's text to MaxReason bytes. It omits the middle: a text begins with the failure and may end
// with its cause.
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

// checkName returns an error for a name that is empty or too long.
func checkName(field, s string) error {
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%s: %w: a name of %d bytes, 1 to %d are allowed", field, ErrInvalid, len(s), MaxName)
	}
	return nil
}

// checkLength returns an error for a text that is too long.
func checkLength(field, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s: %w: %d bytes, at most %d are allowed", field, ErrTooLarge, len(s), limit)
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
