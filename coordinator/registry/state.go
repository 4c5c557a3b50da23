package registry

import (
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/internal/epochs"
)

// Limits on the state.
const (
	MaxExperiments = 10_000
	MaxRuns        = 100_000
	MaxClients     = 4096 // whose last answers are remembered
	MaxDrained     = 4096 // learners
	MaxNodes       = 32
	// MaxLosses is how many learners in a row a run may lose, without a commit in between, before it is
	// assumed to kill them.
	MaxLosses = 5
)

// RunState is the state of a run.
type RunState string

// The states.
const (
	Queued    RunState = "queued"
	Running   RunState = "running" // leased, possibly on an expired lease
	Paused    RunState = "paused"
	Done      RunState = "done"
	Failed    RunState = "failed"
	Cancelled RunState = "cancelled"
)

// States are all states, in the order of a run's life.
var States = []RunState{Queued, Running, Paused, Done, Failed, Cancelled}

// Over reports whether a run in this state has ended.
func (s RunState) Over() bool { return s == Done || s == Failed || s == Cancelled }

// Experiment is a spec that was submitted.
type Experiment struct {
	Spec      Spec      `json:"spec"`
	Submitted time.Time `json:"submitted"`
}

// Run is one run of an experiment. The targets of its pointers, slices and maps are replaced,
// never changed, so a copy of a Run stays as it is.
type Run struct {
	Name       string    `json:"name"`
	Experiment string    `json:"experiment"`
	Task       string    `json:"task"`
	Algorithm  string    `json:"algorithm"`
	Estimator  string    `json:"estimator"`
	Seed       uint64    `json:"seed"`
	Settings   []Setting `json:"settings,omitempty"` // overridden ones
	Length     Length    `json:"length,omitzero"`    // once extended
	Priority   int       `json:"priority,omitempty"`

	State  RunState `json:"state"`
	Reason string   `json:"reason,omitempty"` // why it failed, or lost its last learner
	ID     uint64   `json:"id,omitzero"`      // unique among runs of that name: the first epoch is ID+1
	Epoch  uint64   `json:"epoch"`            // grows by one each time the run is taken
	Lease  *Lease   `json:"lease,omitempty"`  // while it is running
	Losses int      `json:"losses,omitempty"` // learners lost in a row without a commit

	Start      *Checkpoint        `json:"start,omitempty"`      // of a reset run until its first commit, without a hash
	Checkpoint *Checkpoint        `json:"checkpoint,omitempty"` // the last committed
	Steps      uint64             `json:"steps"`                // environment steps up to the checkpoint
	Summary    map[string]float64 `json:"summary,omitempty"`    // metrics of the last iteration

	Updated time.Time `json:"updated"` // time of the last change other than a renewal
	Changed uint64    `json:"changed"` // State.Index at the last change
}

// Lease is a learner's hold on a run.
type Lease struct {
	Learner string    `json:"learner"`
	NATS    string    `json:"nats,omitempty"` // where actors find the run's tickets
	Expires time.Time `json:"expires"`
	// TTL is the term requested by Take or the last renewal.
	TTL float64 `json:"ttl_seconds"`
	// Lost says that it has expired. Only answers say so, not the state.
	Lost bool `json:"lost,omitempty"`
}

// Heard is when the learner was last heard of.
func (l *Lease) Heard() time.Time { return l.Expires.Add(-Seconds(l.TTL)) }

// Seconds returns a number of seconds as a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Checkpoint is a run's state after an iteration, kept elsewhere.
type Checkpoint struct {
	Iteration uint64 `json:"iteration"`
	SHA256    string `json:"sha256"`   // of the whole file, in hexadecimal
	Location  string `json:"location"` // where the file is, as the learners understand it
}

// Home returns the directory of the learners' store in which the run's epochs have theirs. No other run ever has the
// same.
func (r *Run) Home() string {
	return epochs.Home(r.Name, r.ID)
}

// Iteration returns the last one committed, 0 before the first commit.
func (r *Run) Iteration() uint64 {
	if r.Checkpoint == nil {
		return 0
	}
	return r.Checkpoint.Iteration
}

// Free reports whether a learner may take the run.
func (r *Run) Free(now time.Time) bool {
	return r.State == Queued || r.State == Running && !r.Lease.Expires.After(now)
}

// Node is a coordinator node and the URL at which it takes requests.
type Node struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Member is a node of the coordinator's cluster, of which the state knows the URL alone.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"`       // of its raft listener
	URL     string `json:"url,omitempty"` // where it takes requests, once announced
	Leader  bool   `json:"leader"`
	Voter   bool   `json:"voter"` // it counts for majorities; a new node does once it has caught up
	// Silent is since when the leader has not been able to reach it; zero if it is well.
	Silent time.Time `json:"silent_since,omitzero"`
}

// State is everything the coordinator knows. The order of all its parts is determined by the
// commands.
type State struct {
	Index   uint64    `json:"index"`           // commands applied
	Changed uint64    `json:"changed"`         // Index at the last change of a run
	Now     time.Time `json:"now"`             // latest time of any command
	Term    uint64    `json:"term"`            // latest term of any command
	Epochs  uint64    `json:"epochs,omitzero"` // at least those of removed runs and before a restore; new runs follow

	Experiments []Experiment `json:"experiments"` // in the order of submission
	Runs        []Run        `json:"runs"`        // likewise, in the order of Expand
	Clients     []client     `json:"clients"`     // the one silent longest first
	Drained     []string     `json:"drained"`     // learners, in the order of their draining
	Nodes       []Node       `json:"nodes"`       // in the order of their announcement

	runs map[string]int // indices in Runs by name
}

// New returns the state before the first command.
func New() *State { return &State{runs: map[string]int{}} }

// Run returns a run by its name, or nil. It belongs to the state.
func (s *State) Run(name string) *Run {
	if i, ok := s.runs[name]; ok {
		return &s.Runs[i]
	}
	return nil
}

// Experiment returns an experiment by its name, or nil.
func (s *State) Experiment(name string) *Experiment {
	i := slices.IndexFunc(s.Experiments, func(e Experiment) bool { return e.Spec.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Experiments[i]
}

// URL returns a node's announced URL, or "".
func (s *State) URL(node string) string {
	for _, n := range s.Nodes {
		if n.ID == node {
			return n.URL
		}
	}
	return ""
}

// Clone returns a copy that further commands to s do not change.
func (s *State) Clone() *State {
	c := *s
	c.Experiments, c.Runs = slices.Clone(s.Experiments), slices.Clone(s.Runs)
	c.Clients, c.Drained, c.Nodes = slices.Clone(s.Clients), slices.Clone(s.Drained), slices.Clone(s.Nodes)
	c.index()
	return &c
}

// index builds the index of runs.
func (s *State) index() {
	s.runs = make(map[string]int, len(s.Runs))
	for i := range s.Runs {
		s.runs[s.Runs[i].Name] = i
	}
}

// Restore makes the state of a backup that of a new coordinator. What was commanded since the backup is unknown, so
// every run goes on above any epoch that it may have had, learners must take their runs again, and everything has
// changed.
func (s *State) Restore(now time.Time) {
	s.Nodes = nil
	s.Index = max(s.Index, uint64(now.UnixMilli())) // as if there had been a command every millisecond
	s.Epochs = max(s.Epochs, uint64(now.Unix()))    // and a run had been taken every second
	for i := range s.Runs {
		s.Epochs = max(s.Epochs, s.Runs[i].Epoch)
	}
	for i := range s.Runs {
		run := &s.Runs[i]
		if run.Epoch = s.Epochs; run.State == Running {
			run.end(Queued, run.Reason)
		}
		s.touch(run)
	}
}

// touch records that a run has changed.
func (s *State) touch(run *Run) {
	run.Updated, run.Changed, s.Changed = s.Now, s.Index, s.Index
}

// ChangedSince returns the runs that have changed after an index, in the order of submission. They belong to the
// state.
func (s *State) ChangedSince(after uint64) (runs []*Run) {
	if s.Changed <= after {
		return nil
	}
	for i := range s.Runs {
		if s.Runs[i].Changed > after {
			runs = append(runs, &s.Runs[i])
		}
	}
	return runs
}
