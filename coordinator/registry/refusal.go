package registry

import "fmt"

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
)

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
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
