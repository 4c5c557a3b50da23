package proto

import (
	"fmt"
	"strings"
)

// PolicyBucket is the key-value bucket that holds each run's current policy under
// the run's name.
const PolicyBucket = "dbqpg-policies"

// DiscoverSubject is where actors ask all learners for an [Announcement] when they start, by an empty message.
const DiscoverSubject = "dbqpg.discover"

// CheckRun returns an error for a run's name that cannot be part of a subject: it takes 1 to
// [MaxName] letters, digits, "-", "_", "=" and "/".
func CheckRun(run string) error {
	if err := checkName("run", run); err != nil {
		return err
	}
	if i := strings.IndexFunc(run, func(c rune) bool { return !nameRune(c) }); i >= 0 {
		return fmt.Errorf("run: %w: %q holds %q; letters, digits, - _ = and / are allowed", ErrInvalid, run, run[i:i+1])
	}
	return nil
}

func nameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '-' || c == '_' || c == '=' || c == '/'
}

// Subjects are the subjects of one run. Requests go to one epoch's learner: actors that
// know of a newer one no longer talk to the learner it replaced.
type Subjects struct {
	run string
}

// SubjectsOf returns the subjects of a run, whose name [CheckRun] has accepted.
func SubjectsOf(run string) Subjects { return Subjects{run} }

// Positions returns the subject on which a run's learners publish [Announcement]s.
func (s Subjects) Positions() string { return "dbqpg." + s.run + ".position" }

// Anyone stands for the key of a sender on a server without credentials.
const Anyone = "anyone"

// Request returns the subject on which an epoch's learner receives requests of m's kind from the owner of a public
// key, or [Anyone]. A server with credentials lets nobody else publish there.
func (s Subjects) Request(epoch uint64, m Request, key string) string {
	return fmt.Sprintf("dbqpg.%s.%d.%s.%s", s.run, epoch, m.kind(), key)
}

// Requests returns the subject that an epoch's learner subscribes to.
func (s Subjects) Requests(epoch uint64) string {
	return fmt.Sprintf("dbqpg.%s.%d.*.*", s.run, epoch)
}

// DecodeRequest decodes a message that arrived on one of the subjects that Requests covers. Unless the sender is
// Anyone, its key precedes the actor's name in the message's Slot, so that nobody can act under another's name.
func DecodeRequest(subject string, data []byte) (Request, error) {
	rest, key := cutLast(subject)
	_, kind := cutLast(rest)
	var m Request
	switch kind {
	case "ask":
		m = new(Ask)
	case "offer":
		m = new(Offer)
	case "chunk":
		m = new(Chunk)
	case "return":
		m = new(Return)
	default:
		return nil, fmt.Errorf("%w: a request of kind %.20q", ErrInvalid, kind)
	}
	err := Unmarshal(data, m)
	if key != Anyone {
		m.Sender().Actor = key + " " + m.Sender().Actor
	}
	return m, err
}

// cutLast cuts a subject before its last token.
func cutLast(subject string) (rest, token string) {
	i := strings.LastIndexByte(subject, '.')
	return subject[:max(i, 0)], subject[i+1:]
}
