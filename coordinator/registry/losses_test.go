package registry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A run that kills its learners has failed after MaxLosses of them, however they end, and the next run is taken; one
// commit is enough to go on, and so is a retry.
func TestLosses(t *testing.T) {
	killed := func(c *clock, _ Hold) { c.now = c.now.Add(time.Minute) }
	broken := func(c *clock, h Hold) { c.do("", Command{End: &End{h, Queued, "the GPU was lost"}}) }
	stopped := func(c *clock, h Hold) { c.do("", Command{End: &End{Hold: h, State: Queued}}) }
	for name, test := range map[string]struct {
		ends   []func(*clock, Hold) // of learners, in turn
		reason string               // why it fails, "" if it does not
	}{
		"killed": {[]func(*clock, Hold){killed},
			"5 workers in a row ended without a commit, the last, l4, silently"},
		"broken": {[]func(*clock, Hold){broken},
			"5 workers in a row ended without a commit, the last, l4, with: the GPU was lost"},
		"both":                         {[]func(*clock, Hold){killed, broken}, "the last, l4, silently"},
		"stopped":                      {[]func(*clock, Hold){stopped}, ""},
		"one less, and one is stopped": {append(slices.Repeat([]func(*clock, Hold){killed}, MaxLosses-1), stopped), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock(t)
			c.do("", Command{Submit: &Submit{spec("a", 1, 2)}})
			run := c.Run(runName("a", 1))
			for round := range uint64(2) {
				epoch := run.Epoch + 1
				for i := range MaxLosses {
					h := c.take("", fmt.Sprint("l", i))
					if h != (Hold{run.Name, epoch + uint64(i)}) {
						t.Fatalf("learner %d of round %d has %+v", i, round, h)
					}
					if i == 0 { // those lost before count no more
						c.commit("", h, round, run.lastHash(), hash(int(round+1)))
					}
					test.ends[i%len(test.ends)](c, h)
				}
				if test.reason != "" && run.State == Running {
					c.take(NothingNow, "l9") // finds that it has lost one too many
				}
				next := c.take("", "l9")
				if failed := next.Run != run.Name; failed != (test.reason != "") || failed &&
					(run.State != Failed || !strings.Contains(run.Reason, test.reason)) {
					t.Fatalf("taken is %v, and before it %+v", next, run)
				}
				stopped(c, next)
				if test.reason != "" {
					c.do("", Command{Steer: &Steer{Name: "a", Action: Retry}})
				}
			}
		})
	}
}

func (r *Run) lastHash() string {
	if r.Checkpoint == nil {
		return ""
	}
	return r.Checkpoint.SHA256
}

// Take reports that it has found a lease expired, also if the run has failed by that.
func TestTakeTellsOfExpiredLeases(t *testing.T) {
	c := newClock(t)
	c.do("", Command{Submit: &Submit{spec("a", 1, 2)}})
	take := Command{Take: &Take{Learner: "l", TTL: 1}}
	var expired []int
	for range MaxLosses {
		expired = append(expired, c.do("", take).Runs)
		c.now = c.now.Add(time.Minute)
	}
	expired = append(expired, c.do(NothingNow, take).Runs, c.do("", take).Runs)
	c.do("", Command{End: &End{Hold{runName("a", 2), 1}, Queued, "the GPU was lost"}})
	if expired = append(expired, c.do("", take).Runs); !slices.Equal(expired, []int{0, 1, 1, 1, 1, 1, 0, 0}) {
		t.Errorf("expired leases that were found: %v", expired)
	}
}

// TestNewLeaderExtendsLeases has a lease run out while there was no leader: its holder, who could not renew it, comes
// before those who wait.
func TestNewLeaderExtendsLeases(t *testing.T) {
	s := New()
	do := func(after time.Duration, term uint64, c Command) Response {
		c.Time, c.Term = start.Add(after), term
		return s.Apply(c)
	}
	do(0, 1, Command{Submit: &Submit{Spec: Spec{Name: "e", Tasks: []string{"Swimmer-v2"}, Algorithms: []string{"npg"},
		Estimators: []string{"uapg"}, Seeds: []uint64{1}}}})
	take := func(learner string) Command {
		return Command{Take: &Take{Learner: learner, TTL: 10, Run: "e/Swimmer-v2/npg-uapg-s1"}}
	}
	held := do(0, 1, take("holder"))
	if held.Run == nil {
		t.Fatal(held.Refusal)
	}
	if r := do(time.Minute, 2, take("waiting")); r.Run != nil {
		t.Fatal("the first command after an election took a run whose holder could not renew")
	}
	if r := do(time.Minute+9*time.Second, 2, take("waiting")); r.Run != nil {
		t.Fatal("the lease did not begin anew")
	}
	if r := do(time.Minute+10*time.Second, 2, take("waiting")); r.Run == nil || r.Run.Epoch != 2 {
		t.Errorf("a holder that is silent after the election keeps the run: %v", r.Refusal)
	}
}

// However often the coordinator is away for longer than a lease, that does not count against the run.
func TestAwayIsNoLoss(t *testing.T) {
	c := newClock(t)
	c.do("", Command{Submit: &Submit{spec("a", 1)}})
	h := c.take("", "holder")
	for term := range uint64(3 * MaxLosses) {
		c.now = c.now.Add(time.Hour)
		c.do(NothingNow, Command{Term: term + 2, Take: &Take{Learner: "waiting", TTL: 10}})
		c.held("", h)
	}
	if run := c.Run(h.Run); run.Losses != 0 || run.Epoch != 1 {
		t.Errorf("%+v", run)
	}
}
