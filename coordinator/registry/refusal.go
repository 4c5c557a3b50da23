package registry

import "fmt"

// Code says why a command is refused. Programs decide by it.
type Code string

// The codes.
const (
	Invalid    Code = "invalid"     // the command makes no sense, and never will
	NotFound   Code = "not_found"   // there is no run or experiment of that name
	Exists     Code = "exists"      // there is an experiment of that name
	NothingNow Code = "nothing_now" // no run to take; ask again later
	StaleEpoch Code = "stale_epoch" // another learner has taken the run since
	NotRunning Code = "not_running" // the run is done, failed, cancelled or queued
	WrongHash  Code = "wrong_hash"  // the commit does not follow the last one
	Busy       Code = "busy"        // some runs of the experiment are not over
	Full       Code = "full"        // a bound on what is kept is reached
	Forgotten  Code = "forgotten"   // the client has sent a later request since
)

// Refusal is the answer to a command that changed nothing. It is an error.
type Refusal struct {
	Code    Code   `json:"code"`
	Message string `json:"message"` // what is wrong, for people
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
