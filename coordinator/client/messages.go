package client

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// Codes of errors in addition to those of refusals.
const (
	Unavailable registry.Code = "unavailable" // no leader for now: retry
	Malformed   registry.Code = "malformed"   // the request cannot be read
	TooLarge    registry.Code = "too_large"   // the request, or an answer with a size limit
	Forbidden   registry.Code = "forbidden"   // the sender's role does not permit it
	Unsafe      registry.Code = "unsafe"      // the change could leave the coordinator without a majority
	Internal    registry.Code = "internal"    // the coordinator's fault
	Disk        registry.Code = "disk"        // the node cannot write, and no other leads
)

// Error is an answer that is not a result.
type Error struct {
	Code    registry.Code `json:"code"`
	Message string        `json:"message"`
}

// Errorf returns an error with a formatted message.
func Errorf(code registry.Code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Message }

// Refusal returns the error as one of the registry's refusals, nil if it is not one.
func (e *Error) Refusal() *registry.Refusal {
	if !e.Code.Refuses() {
		return nil
	}
	return &registry.Refusal{Code: e.Code, Message: e.Message}
}

// Failure is the message that carries an Error.
type Failure struct {
	Error *Error `json:"error"`
}

// Query selects runs.
type Query struct {
	// Experiment selects the runs of one experiment; "" means all.
	Experiment string `json:"experiment,omitempty"`
	// State selects the runs in one state; "" means any.
	State registry.RunState `json:"state,omitempty"`
	// Free selects only runs that a learner may take now, whether or not they have changed after After.
	Free bool `json:"free,omitempty"`
	// After selects only runs that have changed since that index of an earlier answer.
	After uint64 `json:"after,omitempty"`
	// Wait is how long to wait for a matching run.
	Wait time.Duration `json:"wait,omitempty"`
}

// Runs is the answer to a query.
type Runs struct {
	// Index is the value for After in a later query.
	Index uint64         `json:"index"`
	Now   time.Time      `json:"now"` // by the coordinator's clock
	Runs  []registry.Run `json:"runs"`
}

// Experiment is an experiment with the states of its runs.
type Experiment struct {
	registry.Experiment
	Runs map[registry.RunState]int `json:"runs"`
}

// Experiments lists all experiments, in the order of submission.
type Experiments struct {
	Experiments []Experiment `json:"experiments"`
}

const (
	// HeartbeatEvery is the time between a learner's heartbeats.
	HeartbeatEvery = 30 * time.Second
	// SilentAfter is how long after its last heartbeat a learner is silent.
	SilentAfter = 90 * time.Second
	// SeenFor is how long a silent learner is remembered.
	SeenFor = 24 * time.Hour
	// MaxSeen bounds the number of learners that are remembered.
	MaxSeen = 4096
)

// Renewal extends a lease, even one that has expired, as long as nobody else has taken the run.
type Renewal struct {
	registry.Hold
	TTL float64 `json:"ttl_seconds"`
}

// Heartbeat reports that a learner is alive, or that it leaves.
type Heartbeat struct {
	Learner string `json:"learner"`
	Run     string `json:"run,omitempty"`   // the run it works on
	Slots   int    `json:"slots,omitempty"` // number of actors that played its last batch
	Gone    bool   `json:"gone,omitempty"`  // it leaves
}

// Seen lists the learners heard of recently that have not left, the one silent longest first.
type Seen struct {
	Now  time.Time `json:"now"`
	Seen []Learner `json:"seen"`
}

// Learner is a learner heard of recently.
type Learner struct {
	Name    string    `json:"name"`
	Run     string    `json:"run,omitempty"`
	Slots   int       `json:"slots,omitempty"`
	At      time.Time `json:"at"`                // of its last heartbeat
	Drained bool      `json:"drained,omitempty"` // it gets no runs
	Silent  bool      `json:"silent"`            // for longer than the lease of its run, or than SilentAfter
}

// Node is one of the coordinator's nodes.
type Node = registry.Member

// Nodes lists the coordinator's nodes as known to the leader.
type Nodes struct {
	Nodes []Node `json:"nodes"`
}

// Joining is a node's request to join the coordinator.
type Joining struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// Lost is the answer to a node that has lost its directory and is no longer a member.
type Lost struct {
	Term uint64 `json:"term"` // it must not vote in this term or an earlier one
}

// Limits and names of the API.
const (
	// MaxWait is the longest time that a query waits.
	MaxWait = time.Minute
	// NodesHeader is the header that lists the nodes' URLs in every answer, separated by commas.
	NodesHeader = "Dbqpg-Nodes"
)

// values returns the query in its HTTP form.
func (q Query) values() url.Values {
	v := url.Values{}
	set := func(name, value string, given bool) {
		if given {
			v.Set(name, value)
		}
	}
	set("experiment", q.Experiment, q.Experiment != "")
	set("state", string(q.State), q.State != "")
	set("free", strconv.FormatBool(q.Free), q.Free)
	set("after", strconv.FormatUint(q.After, 10), q.After != 0)
	set("wait", strconv.FormatFloat(q.Wait.Seconds(), 'g', -1, 64), q.Wait != 0)
	return v
}

// ParseQuery parses a query in its HTTP form. It ignores unknown names.
func ParseQuery(v url.Values) (q Query, err error) {
	q = Query{Experiment: v.Get("experiment"), State: registry.RunState(v.Get("state"))}
	if text := v.Get("free"); text != "" {
		if q.Free, err = strconv.ParseBool(text); err != nil {
			return q, fmt.Errorf("free=%q is neither true nor false", text)
		}
	}
	if text := v.Get("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, fmt.Errorf("after=%q is not an index", text)
		}
	}
	if text := v.Get("wait"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return q, fmt.Errorf("wait=%q is not a number of seconds", text)
		}
		if !(0 <= seconds && seconds <= MaxWait.Seconds()) {
			return q, fmt.Errorf("wait=%s: at most %v is allowed", text, MaxWait)
		}
		q.Wait = time.Duration(seconds * float64(time.Second))
	}
	return q, nil
}
