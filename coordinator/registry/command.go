package registry

import (
	"reflect"
	"slices"
	"time"
)

// Version is the version of the commands' and snapshots' encoding, and of the rules by which commands are applied.
const Version = 4

// Command is a request to change the state. Exactly one of its operations is set.
type Command struct {
	Time    time.Time `json:"time,omitzero"`    // when the leader proposed it
	Term    uint64    `json:"term,omitzero"`    // that leader's term
	Version int       `json:"version,omitzero"` // set by EncodeCommand
	Request Request   `json:"request,omitzero"`

	Submit   *Submit   `json:"submit,omitempty"`
	Take     *Take     `json:"take,omitempty"`
	Commit   *Commit   `json:"commit,omitempty"`
	End      *End      `json:"end,omitempty"`
	Steer    *Steer    `json:"steer,omitempty"`
	Reset    *Reset    `json:"reset,omitempty"`
	Remove   *Remove   `json:"remove,omitempty"`
	Drain    *Drain    `json:"drain,omitempty"`
	Announce *Announce `json:"announce,omitempty"`
}

// Request identifies a request, so that it is not executed twice. A client has one in flight at a time. The zero
// value is for commands that may be executed twice.
type Request struct {
	Client string `json:"client,omitempty"` // unique to a process
	Number uint64 `json:"number,omitempty"` // starts at 1 and grows with each of the client's requests
	Hash   string `json:"hash,omitempty"`   // of the request, by the node that takes it
}

// Response is the answer to a command: either a Refusal or the operation's result.
type Response struct {
	Run     *Run     `json:"run,omitempty"`  // the single run that the operation has changed
	Runs    int      `json:"runs,omitempty"` // number of runs changed; for Take, of expired leases
	Refusal *Refusal `json:"refusal,omitempty"`
}

// An operation changes the state.
type operation interface {
	check() *Refusal          // refuses an operation that is invalid in any state
	apply(s *State) *Response // executes it, or refuses it and changes nothing
}

// operation returns the command's operation.
func (c *Command) operation() (operation, *Refusal) {
	var given []operation
	fields := reflect.ValueOf(*c)
	for i := range fields.NumField() {
		if o, ok := fields.Field(i).Interface().(operation); ok && !fields.Field(i).IsNil() {
			given = append(given, o)
		}
	}
	if len(given) != 1 {
		return nil, refuse(Invalid, "a command has one operation; this one has %d", len(given))
	}
	return given[0], given[0].check()
}

// Check returns a *Refusal if the command is invalid in any state.
func (c *Command) Check() error {
	if _, r := c.valid(); r != nil {
		return r
	}
	return nil
}

func (c *Command) valid() (operation, *Refusal) {
	if c.Request != (Request{}) {
		r := checkName("a client's name", c.Request.Client, maxName)
		if r == nil && c.Request.Number == 0 {
			r = refuse(Invalid, "a client numbers its requests from 1")
		}
		if r != nil {
			return nil, r
		}
	}
	return c.operation()
}

// Apply executes a command. A request that was answered before gets the same answer and
// changes nothing.
func (s *State) Apply(c Command) Response {
	s.Index++
	if c.Time.After(s.Now) {
		s.Now = c.Time.UTC()
	}
	if c.Term > s.Term {
		s.Term = c.Term
		s.extendLeases()
	}
	o, r := c.valid()
	if r != nil {
		return Response{Refusal: r}
	}
	if c.Request.Client == "" {
		return *o.apply(s)
	}
	last := s.client(c.Request.Client)
	switch {
	case c.Request.Number == last.Number && c.Request.Hash != last.Hash:
		return *refused(Reused, "request %d was another one: give this one a number or key of its own", last.Number)
	case c.Request.Number == last.Number:
		return last.Answer
	case c.Request.Number < last.Number:
		return *refused(Forgotten, "request %d came after request %d: not repeated", c.Request.Number, last.Number)
	}
	last.Number, last.Hash, last.Answer = c.Request.Number, c.Request.Hash, *o.apply(s)
	return last.Answer
}

// Answered reports whether a request has been answered before.
func (s *State) Answered(r Request) bool {
	return r.Client != "" && slices.ContainsFunc(s.Clients, func(c client) bool {
		return c.Name == r.Client && c.Number >= r.Number
	})
}

// extendLeases renews every lease for its full term. While there was no leader nobody could renew one, and holders
// of runs take precedence over waiting learners.
func (s *State) extendLeases() {
	for i := range s.Runs {
		run := &s.Runs[i]
		if run.State != Running {
			continue
		}
		if until := s.Now.Add(Seconds(run.Lease.TTL)); until.After(run.Lease.Expires) {
			lease := *run.Lease
			lease.Expires = until
			run.Lease = &lease
		}
	}
}

// client is a client's last request and its answer.
type client struct {
	Name   string   `json:"name"`
	Number uint64   `json:"number"`
	Hash   string   `json:"hash,omitempty"`
	Answer Response `json:"answer"`
}

// client returns a client by its name and marks it as the most recent. A new one may displace the one silent longest.
func (s *State) client(name string) *client {
	c := client{Name: name}
	if i := slices.IndexFunc(s.Clients, func(c client) bool { return c.Name == name }); i >= 0 {
		c = s.Clients[i]
		s.Clients = slices.Delete(s.Clients, i, i+1)
	} else if len(s.Clients) == MaxClients {
		s.Clients = slices.Delete(s.Clients, 0, 1)
	}
	s.Clients = append(s.Clients, c)
	return &s.Clients[len(s.Clients)-1]
}
