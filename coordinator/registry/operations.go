package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

func refused(code Code, format string, args ...any) *Response {
	return &Response{Refusal: refuse(code, format, args...)}
}

// changed notes a run's change and returns the response, with a copy of the run.
func (s *State) changed(run *Run) *Response {
	s.touch(run)
	now := *run
	return &Response{Run: &now}
}

// Submit adds an experiment and queues its runs.
type Submit struct {
	Spec Spec `json:"spec"`
}

func (o *Submit) check() *Refusal { return o.Spec.check() }

func (o *Submit) apply(s *State) *Response {
	if s.Experiment(o.Spec.Name) != nil {
		return refused(Exists, "there is an experiment called %s: choose another name", o.Spec.Name)
	}
	runs := o.Spec.Expand()
	if len(s.Experiments) == MaxExperiments || len(s.Runs)+len(runs) > MaxRuns {
		return refused(Full, "at most %d experiments and %d runs are kept: remove ended ones", MaxExperiments, MaxRuns)
	}
	s.Experiments = append(s.Experiments, Experiment{Spec: o.Spec, Submitted: s.Now})
	first := len(s.Runs)
	s.Runs = append(s.Runs, runs...)
	for i := first; i < len(s.Runs); i++ {
		s.Runs[i].ID, s.Runs[i].Epoch = s.Epochs, s.Epochs
		s.runs[s.Runs[i].Name] = i
		s.touch(&s.Runs[i])
	}
	return &Response{Runs: len(runs)}
}

// Take leases a free run: one that is queued, or whose lease has expired. Package api chooses it by the renewals,
// too, unless it is named.
type Take struct {
	Learner string  `json:"learner"`
	TTL     float64 `json:"ttl_seconds"`    // of the lease
	NATS    string  `json:"nats,omitempty"` // where actors find the run's tickets
	Run     string  `json:"run,omitempty"`
}

func (o *Take) check() *Refusal {
	r := firstOf(checkName("a learner's name", o.Learner, maxName), CheckTTL(o.TTL), checkText("nats", o.NATS, maxText))
	if r == nil && o.Run != "" {
		r = checkRun(o.Run)
	}
	return r
}

func (o *Take) apply(s *State) *Response {
	if r := s.IsDrained(o.Learner); r != nil {
		return &Response{Refusal: r}
	}
	run, expired := s.Run(o.Run), 0
	switch {
	case run == nil:
		return refused(NotFound, "there is no run called %s", o.Run)
	case !run.Free(s.Now):
		return &Response{Refusal: ErrNothingNow}
	case run.State == Running:
		expired = 1
		if run.lose("silently, as when it is killed for lack of memory"); run.State == Failed {
			s.touch(run)
			return &Response{Refusal: ErrNothingNow, Runs: expired}
		}
	}
	run.State, run.Epoch = Running, run.Epoch+1
	run.Lease = &Lease{Learner: o.Learner, NATS: o.NATS, Expires: s.Now.Add(Seconds(o.TTL)), TTL: o.TTL}
	taken := s.changed(run)
	taken.Runs = expired
	return taken
}

// end ends the learner's hold on the run.
func (r *Run) end(state RunState, reason string) { r.State, r.Reason, r.Lease = state, reason, nil }

// lose takes the run from a lost learner; how says how the learner ended. The run is queued again, or fails if that
// was one too many in a row.
func (r *Run) lose(how string) {
	learner := r.Lease.Learner
	if r.Losses++; r.Losses == MaxLosses {
		const format = "%d workers in a row ended without a commit, the last, %s, %s"
		r.end(Failed, fmt.Sprintf(format, r.Losses, learner, how))
		return
	}
	r.end(Queued, fmt.Sprintf("the last worker, %s, ended %s", learner, how))
}

// Hold identifies a run and the epoch in which a learner holds it.
type Hold struct {
	Run   string `json:"run"`
	Epoch uint64 `json:"epoch"`
}

func (h Hold) check() *Refusal { return checkRun(h.Run) }

// Held returns the run if it is held in that epoch, or else a refusal.
func (h Hold) Held(s *State) (*Run, *Refusal) {
	run := s.Run(h.Run)
	switch {
	case run == nil:
		return nil, refuse(NotFound, "there is no run called %s", h.Run)
	case h.Epoch < run.Epoch:
		return nil, refuse(StaleEpoch, "%s is at epoch %d, not %d: another learner took it", h.Run, run.Epoch, h.Epoch)
	case h.Epoch > run.Epoch:
		return nil, refuse(Invalid, "%s is at epoch %d: nobody has taken it under epoch %d", h.Run, run.Epoch, h.Epoch)
	case run.State != Running:
		return nil, refuse(NotRunning, "%s is %s", h.Run, run.State)
	}
	return run, nil
}

// Commit adds a checkpoint to the run's chain. Repeating the last one is not an error.
type Commit struct {
	Hold
	Previous   string             `json:"previous"` // SHA256 of the last checkpoint, "" before the first
	Checkpoint Checkpoint         `json:"checkpoint"`
	Steps      uint64             `json:"steps"`
	Summary    map[string]float64 `json:"summary,omitempty"`
}

func (o *Commit) check() *Refusal {
	r := firstOf(o.Hold.check(), checkHash("sha256", o.Checkpoint.SHA256), checkSummary(o.Summary),
		checkText("location", o.Checkpoint.Location, maxText))
	if r == nil && o.Previous != "" {
		r = checkHash("previous", o.Previous)
	}
	return r
}

func (o *Commit) apply(s *State) *Response {
	run, r := o.Held(s)
	if r != nil {
		return &Response{Refusal: r}
	}
	if run.Checkpoint != nil && *run.Checkpoint == o.Checkpoint {
		now := *run
		return &Response{Run: &now}
	}
	if r := o.follows(run.Checkpoint); r != nil {
		return &Response{Refusal: r}
	}
	checkpoint := o.Checkpoint
	run.Checkpoint, run.Steps, run.Summary = &checkpoint, o.Steps, o.Summary
	run.Start, run.Losses, run.Reason = nil, 0, ""
	return s.changed(run)
}

// follows refuses a commit that is not the next link of the chain. A chain may begin anywhere.
func (o *Commit) follows(last *Checkpoint) *Refusal {
	switch {
	case last == nil && o.Previous != "":
		return refuse(WrongHash, "%s has no checkpoint yet, so none can follow %.8s", o.Run, o.Previous)
	case last != nil && o.Previous != last.SHA256:
		return refuse(WrongHash, "%s is at checkpoint %.8s; the commit follows %.8q", o.Run, last.SHA256, o.Previous)
	case last != nil && o.Checkpoint.Iteration != last.Iteration+1:
		return refuse(WrongHash, "%s is at iteration %d; the commit is of %d",
			o.Run, last.Iteration, o.Checkpoint.Iteration)
	}
	return nil
}

// End ends a learner's hold on a run.
type End struct {
	Hold
	// State is Done if all iterations are committed, Failed if the run cannot continue, or Queued to return it
	// unfinished, so that the next learner need not wait for the lease to expire.
	State RunState `json:"state"`
	// Reason says why the run has failed. For Queued it is a failure of the learner that the run may have caused,
	// which counts as a loss; "" means none, as when the learner is stopped.
	Reason string `json:"reason,omitempty"`
}

func (o *End) check() *Refusal {
	if o.State != Done && o.State != Failed && o.State != Queued {
		return refuse(Invalid, "a run ends as done, failed or queued, not %.20q", string(o.State))
	}
	return firstOf(o.Hold.check(), checkText("reason", o.Reason, maxText))
}

func (o *End) apply(s *State) *Response {
	run, r := o.Held(s)
	switch {
	case r != nil:
		return &Response{Refusal: r}
	case o.State == Queued && o.Reason != "":
		run.lose("with: " + o.Reason)
	case o.State == Queued:
		run.end(Queued, run.Reason)
	default:
		run.end(o.State, o.Reason)
	}
	return s.changed(run)
}

// Reset queues a run again whatever its state, so that it begins anew: with its settings, or with one of its
// checkpoints if the learners' store still has it.
type Reset struct {
	Run string  `json:"run"`
	To  *uint64 `json:"to,omitempty"` // iteration of the checkpoint; nil: none
}

func (o *Reset) check() *Refusal { return checkRun(o.Run) }

func (o *Reset) apply(s *State) *Response {
	run := s.Run(o.Run)
	if run == nil {
		return refused(NotFound, "there is no run called %s", o.Run)
	}
	var start *Checkpoint
	if o.To != nil {
		last := cmp.Or(run.Checkpoint, run.Start)
		if last == nil || *o.To > last.Iteration {
			return refused(WrongHash, "%s is at iteration %d: there is no checkpoint %d", o.Run, run.Iteration(), *o.To)
		}
		start = &Checkpoint{Iteration: *o.To, Location: last.Location} // which says where the run's checkpoints are
	}
	run.end(Queued, "")
	run.ID, run.Start, run.Checkpoint, run.Steps, run.Summary, run.Losses = run.Epoch, start, nil, 0, nil, 0
	return s.changed(run)
}

// Remove forgets an experiment whose runs have all ended. Their checkpoints remain.
type Remove struct {
	Experiment string `json:"experiment"`
}

func (o *Remove) check() *Refusal { return checkName("an experiment's name", o.Experiment, maxName) }

func (o *Remove) apply(s *State) *Response {
	if s.Experiment(o.Experiment) == nil {
		return refused(NotFound, "there is no experiment called %s", o.Experiment)
	}
	before := len(s.Runs)
	for i := range s.Runs {
		if run := &s.Runs[i]; run.Experiment == o.Experiment && !run.State.Over() {
			return refused(Busy, "%s is %s: cancel the experiment first", run.Name, run.State)
		}
	}
	s.Experiments = slices.DeleteFunc(s.Experiments, func(e Experiment) bool { return e.Spec.Name == o.Experiment })
	s.Runs = slices.DeleteFunc(s.Runs, func(r Run) bool {
		if r.Experiment == o.Experiment {
			s.Epochs = max(s.Epochs, r.Epoch)
		}
		return r.Experiment == o.Experiment
	})
	s.index()
	s.Changed = s.Index
	return &Response{Runs: before - len(s.Runs)}
}

// Announce says at which URL a coordinator node takes requests; "" forgets the node.
type Announce struct {
	Node
}

func (o *Announce) check() *Refusal {
	r := firstOf(checkText("a node's name", o.ID, maxName), checkText("a node's URL", o.URL, maxText))
	if r == nil && (o.ID == "" || o.URL != "" && !strings.Contains(o.URL, "://")) {
		r = refuse(Invalid, "node %q at %q: a name and a URL are required", o.ID, o.URL)
	}
	return r
}

func (o *Announce) apply(s *State) *Response {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == o.ID })
	switch {
	case o.URL == "" && i >= 0:
		s.Nodes = slices.Delete(s.Nodes, i, i+1)
	case o.URL == "":
	case i >= 0:
		s.Nodes[i].URL = o.URL
	case len(s.Nodes) == MaxNodes:
		return refused(Full, "at most %d nodes are kept: remove some that have left", MaxNodes)
	default:
		s.Nodes = append(s.Nodes, o.Node)
	}
	return &Response{}
}
