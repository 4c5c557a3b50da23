package client

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/proto"
)

// Codes of errors beside those of refusals.
const (
	NotLeader   registry.Code = "not_leader"  // ask the node that Error names, if it names one
	Unavailable registry.Code = "unavailable" // no leader at the moment: ask again
	Malformed   registry.Code = "malformed"   // the request cannot be read
	TooLarge    registry.Code = "too_large"   // the request, or the answer where it has a bound
	Forbidden   registry.Code = "forbidden"   // not for whoever asked
	Internal    registry.Code = "internal"    // the coordinator's fault
)

// Error is an answer that is no result.
type Error struct {
	Code    registry.Code `json:"code"`
	Message string        `json:"message"`
	Leader  string        `json:"leader,omitempty"` // URL of the node to ask
}

func (e *Error) Error() string { return e.Message }

// Failure is how an Error is sent.
type Failure struct {
	Error *Error `json:"error"`
}

// Query says which runs are wanted.
type Query struct {
	// Experiment is the one that they belong to; "" is all.
	Experiment string `json:"experiment,omitempty"`
	// State is the one that they are in; "" is any.
	State registry.RunState `json:"state,omitempty"`
	// Free lets only runs through that a learner may take now. They need not have changed after After.
	Free bool `json:"free,omitempty"`
	// After lets only runs through that have changed after that index of an earlier answer.
	After uint64 `json:"after,omitempty"`
	// Wait is how long to wait until there is a run that all this lets through.
	Wait time.Duration `json:"wait,omitempty"`
}

// Runs are those that a query was for.
type Runs struct {
	// Index is what a later query's After is to be.
	Index uint64         `json:"index"`
	Runs  []registry.Run `json:"runs"`
}

// Experiment is one with the states of its runs.
type Experiment struct {
	registry.Experiment
	Runs map[registry.RunState]int `json:"runs"`
}

// Experiments are all, in the order of their submission.
type Experiments struct {
	Experiments []Experiment `json:"experiments"`
}

// Seen are the learners and actors heard of lately, the longest silent first.
type Seen struct {
	Now  time.Time       `json:"now"`
	Seen []registry.Seen `json:"seen"`
}

// Node is one of the coordinator's.
type Node struct {
	ID      string `json:"id"`
	Address string `json:"address"`       // of its raft listener
	URL     string `json:"url,omitempty"` // that it takes requests at
	Leader  bool   `json:"leader"`
}

// Nodes are all of the coordinator's, as its leader knows them.
type Nodes struct {
	Nodes []Node `json:"nodes"`
}

// Joining is a node that asks to be one of the coordinator's.
type Joining struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// Lost is the answer to a node that has lost its directory, and is no member any more.
type Lost struct {
	Term uint64 `json:"term"` // up to which it never votes
}

// Envelope is a request over NATS (Method, Path, Body), and its answer (Status, Body): those of HTTP.
type Envelope struct {
	Method string          `json:"method,omitempty"`
	Path   string          `json:"path,omitempty"`
	Status int             `json:"status,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
}

// Subject is where a role sends its requests over NATS. What the coordinator does for whoever sends to one is what it would
// do for the role; who may send there, docs/security.md says.
func Subject(role proto.Role) string {
	switch role {
	case proto.RoleActor:
		return proto.CoordinatorSubjects + "actor.request"
	case proto.RoleLearner:
		return proto.CoordinatorSubjects + "learner.request"
	case proto.RoleObserver:
		return proto.CoordinatorSubjects + "read.request"
	}
	return proto.CoordinatorSubjects + "request"
}

// Limits and names of the API.
const (
	// MaxWait is the longest that a query waits.
	MaxWait = time.Minute
	// NodesHeader is the header of every answer that lists the nodes' URLs, separated by commas.
	NodesHeader = "Dbqpg-Nodes"
	// Service is the name of the NATS service.
	Service = "dbqpg-coordinator"
)

// values is the query as HTTP has it.
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
	set("wait", q.Wait.String(), q.Wait != 0)
	return v
}

// ParseQuery reads a query as HTTP has it.
func ParseQuery(v url.Values) (Query, error) {
	q := Query{Experiment: v.Get("experiment"), State: registry.RunState(v.Get("state"))}
	for name := range v {
		switch name {
		case "experiment", "state", "free", "after", "wait":
		default:
			return q, fmt.Errorf("%q is no part of a query: experiment, state, free, after and wait are", name)
		}
	}
	var err error
	if text := v.Get("free"); text != "" {
		if q.Free, err = strconv.ParseBool(text); err != nil {
			return q, fmt.Errorf("free=%q is neither true nor false", text)
		}
	}
	if text := v.Get("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, fmt.Errorf("after=%q is no index", text)
		}
	}
	if text := v.Get("wait"); text != "" {
		if q.Wait, err = time.ParseDuration(text); err != nil {
			return q, fmt.Errorf("wait=%q is no duration, such as 30s", text)
		}
	}
	return q, q.Check()
}

// Check returns what is wrong with a query.
func (q Query) Check() error {
	if q.Wait < 0 || q.Wait > MaxWait {
		return fmt.Errorf("a wait of %v; at most %v is possible", q.Wait, MaxWait)
	}
	return nil
}
