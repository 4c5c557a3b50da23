package registry

import (
	"fmt"
	"slices"
)

// Code says why a command is refused, for programs.
type Code string

// The codes.
const (
	Invalid    Code = "invalid"     // the command is invalid in any state
	NotFound   Code = "not_found"   // no run or experiment has that name
	Exists     Code = "exists"      // an experiment already has that name
	NothingNow Code = "nothing_now" // no run to take; ask again later
	StaleEpoch Code = "stale_epoch" // another learner has taken the run since
	NotRunning Code = "not_running" // the run is done, failed, cancelled or queued
	WrongHash  Code = "wrong_hash"  // the commit does not follow the last one
	Busy       Code = "busy"        // some runs of the experiment have not ended
	Full       Code = "full"        // a limit on the state is reached
	Drained    Code = "drained"     // the learner is to get no runs
	Forgotten  Code = "forgotten"   // the client has sent a later request since
	Reused     Code = "reused"      // the client has sent another request under that number or key
)

// codes are all codes of refusals.
var codes = []Code{
	Invalid, NotFound, Exists, NothingNow, StaleEpoch, NotRunning, WrongHash, Busy, Full, Drained, Forgotten,
	Reused,
}

// Refuses reports whether it is the code of a refusal: others may have codes of their own.
func (c Code) Refuses() bool { return slices.Contains(codes, c) }

// ErrNothingNow refuses a Take.
var ErrNothingNow = refuse(NothingNow, "no run is waiting for a learner")

// Refusal is the answer to a command that changed nothing. It is an error.
type Refusal struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // says what is wrong, for people
}

func (r *Refusal) Error() string { return r.Message }

// Is makes errors.Is(err, &Refusal{Code: code}) true for any refusal of that code.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Code == r.Code && t.Message == ""
}

func refuse(code Code, format string, args ...any) *Refusal {
	if !code.Refuses() {
		panic(fmt.Sprintf("registry: %q is not in codes", code))
	}
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
