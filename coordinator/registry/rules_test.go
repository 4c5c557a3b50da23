package registry

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// start is when the tests' time begins.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// hash returns one of a few checkpoint hashes.
func hash(n int) string { return fmt.Sprintf("%064x", n) }

func spec(name string, seeds ...uint64) Spec {
	return Spec{Name: name, Tasks: []string{"Swimmer-v2"}, Algorithms: []string{"npg"}, Estimators: []string{"uapg"},
		Seeds: seeds}
}

func runName(experiment string, seed uint64) string {
	return fmt.Sprintf("%s/Swimmer-v2/npg-uapg-s%d", experiment, seed)
}

// drawCommand draws a command, the number-th, that has a fair chance of being accepted: few names, low epochs, and
// now and then the truth from the state.
func drawCommand(t *rapid.T, s *State, number uint64) Command {
	c := Command{Time: start.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "seconds")) * time.Second)}
	if n := rapid.IntRange(0, 3).Draw(t, "client"); n > 0 {
		c.Request = Request{Client: fmt.Sprintf("client%d", n), Number: number}
	}
	name := rapid.SampledFrom([]string{runName("a", 1), runName("a", 2), runName("b", 1), "nobody"}).Draw(t, "run")
	hold := Hold{Run: name, Epoch: s.Epochs + rapid.Uint64Range(0, 4).Draw(t, "epoch")}
	last := Checkpoint{}
	if run := s.Run(name); run != nil {
		if rapid.Bool().Draw(t, "current epoch") {
			hold.Epoch = run.Epoch
		}
		if run.Checkpoint != nil {
			last = *run.Checkpoint
		}
	}
	ttl := float64(rapid.IntRange(1, 20).Draw(t, "ttl"))
	learner := rapid.SampledFrom([]string{"l1", "l2", "l3"}).Draw(t, "learner")
	either := rapid.SampledFrom([]string{"a", "b", name}).Draw(t, "name")
	switch rapid.IntRange(0, 21).Draw(t, "operation") {
	case 0:
		c.Submit = &Submit{spec("a", 1, 2)}
	case 1:
		c.Submit = &Submit{spec("b", 1)}
	case 2, 3, 4, 5, 6, 7:
		c.Take = &Take{Learner: learner, TTL: ttl, Run: name}
	case 8, 9, 10, 11, 12:
		c.Commit = drawCommit(t, hold, last)
	case 13:
		c.End = &End{Hold: hold, State: Done}
	case 14:
		c.End = &End{hold, Failed, "why"}
	case 15:
		c.End = &End{hold, Queued, rapid.SampledFrom([]string{"", "lost"}).Draw(t, "fault")}
	case 16, 17:
		c.Steer = &Steer{Name: either, Action: rapid.SampledFrom([]Action{Cancel, Retry, Pause, Resume, Extend,
			Prioritize}).Draw(t, "action")}
		c.Steer.Iterations = rapid.Uint64Range(1, 5).Draw(t, "iterations")
	case 18:
		c.Remove = &Remove{either}
	case 19:
		c.Drain = &Drain{Learner: learner, Off: rapid.IntRange(0, 3).Draw(t, "off") > 0}
	case 20:
		c.Announce = &Announce{Node{ID: "n1",
			URL: rapid.SampledFrom([]string{"http://a", "http://b", ""}).Draw(t, "url")}}
	case 21:
		c.Reset = &Reset{Run: name}
		if to := rapid.Uint64Range(0, 5).Draw(t, "to"); to > 0 {
			c.Reset.To = &to
		}
	}
	return c
}

func drawCommit(t *rapid.T, hold Hold, last Checkpoint) *Commit {
	o := &Commit{Hold: hold, Previous: last.SHA256,
		Checkpoint: Checkpoint{Iteration: last.Iteration + 1, Location: "x"}}
	o.Checkpoint.SHA256 = hash(rapid.IntRange(1, 9).Draw(t, "hash"))
	if rapid.IntRange(0, 3).Draw(t, "wrong") == 0 {
		o.Previous = rapid.SampledFrom([]string{"", hash(1), hash(2)}).Draw(t, "previous")
		o.Checkpoint.Iteration = rapid.Uint64Range(0, 5).Draw(t, "iteration")
	}
	return o
}

// witness holds what was accepted so far, and checks each next command against it.
type witness struct {
	holders map[string]string     // of each run and epoch
	last    map[string]Checkpoint // committed of each run
	now     time.Time
}

// check fails unless the step from one state to the next keeps the promises that doc.go makes.
func (w *witness) check(t *rapid.T, before, after *State, c Command, r Response) {
	if after.Now.Before(w.now) {
		t.Fatalf("time goes back from %v to %v", w.now, after.Now)
	}
	w.now = after.Now
	for i := range after.Runs {
		run := &after.Runs[i]
		if (run.State == Running) != (run.Lease != nil) {
			t.Fatalf("%s is %s, lease %v", run.Name, run.State, run.Lease)
		}
		if old := before.Run(run.Name); old != nil && (run.Epoch < old.Epoch || run.Epoch > old.Epoch+1) {
			t.Fatalf("%s goes from epoch %d to %d", run.Name, old.Epoch, run.Epoch)
		}
		if run.Lease != nil {
			w.holder(t, run)
		}
		if old := before.Run(run.Name); old != nil {
			checkLosses(t, old, run, c)
		}
	}
	recalled := slices.ContainsFunc(before.Clients,
		func(k client) bool { return k.Name == c.Request.Client && k.Number == c.Request.Number })
	if recalled && !sameRuns(before, after) {
		t.Fatalf("%+v was done twice", c)
	}
	if c.Commit != nil && r.Refusal == nil && !recalled {
		w.commit(t, before.Run(c.Commit.Run), c.Commit)
	}
	if c.Remove != nil && r.Refusal == nil {
		for name := range w.last {
			if strings.HasPrefix(name, c.Remove.Experiment+"/") {
				delete(w.last, name)
			}
		}
	}
	if c.Reset != nil && r.Refusal == nil {
		delete(w.last, c.Reset.Run)
	}
}

// checkLosses fails unless a run's count of lost learners grows by those alone who may have been lost to it, and a
// run that has cost too many in a row has failed.
func checkLosses(t *rapid.T, before, after *Run, c Command) {
	wanted := before.Losses
	switch {
	case after.Changed == before.Changed:
	case c.Take != nil && before.State == Running, c.End != nil && c.End.State == Queued && c.End.Reason != "":
		wanted++
	case c.Commit != nil, c.Steer != nil && c.Steer.Action == Retry, c.Reset != nil:
		wanted = 0
	}
	if after.Losses != wanted || (after.Losses == MaxLosses) != (after.State == Failed &&
		strings.HasPrefix(after.Reason, fmt.Sprint(MaxLosses, " workers"))) {
		t.Fatalf("%s, %s with %d losses, is %s with %d losses (%s) after %+v", after.Name, before.State, before.Losses,
			after.State, after.Losses, after.Reason, c)
	}
}

// holder fails unless a run and epoch have one holder for good.
func (w *witness) holder(t *rapid.T, run *Run) {
	key := fmt.Sprintf("%s@%d", run.Name, run.Epoch)
	if known, ok := w.holders[key]; ok && known != run.Lease.Learner {
		t.Fatalf("%s is held by %s and by %s", key, known, run.Lease.Learner)
	}
	w.holders[key] = run.Lease.Learner
}

// commit fails unless an accepted commit is its run's next, and its holder's.
func (w *witness) commit(t *rapid.T, run *Run, o *Commit) {
	if run == nil || run.State != Running || o.Epoch != run.Epoch {
		t.Fatalf("commit %+v is accepted for %+v", o, run)
	}
	last, ok := w.last[o.Run]
	if ok && last == o.Checkpoint {
		return // again
	}
	if ok && (o.Previous != last.SHA256 || o.Checkpoint.Iteration != last.Iteration+1) || !ok && o.Previous != "" {
		t.Fatalf("commit %+v follows %+v", o, last)
	}
	w.last[o.Run] = o.Checkpoint
}

// Whatever arrives in whatever order: one holder an epoch, also of those that had the name before; epochs that only
// grow, commits in a chain, time that only goes on; a refusal changes no run; a request that comes again changes
// nothing; and another node, also one that began with a snapshot, comes to the same state.
func TestPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, twin := New(), New()
		w := &witness{holders: map[string]string{}, last: map[string]Checkpoint{}}
		var done []Command
		for range rapid.IntRange(1, 80).Draw(t, "commands") {
			c := drawCommand(t, s, uint64(len(done)+1))
			if len(done) > 0 && rapid.IntRange(0, 9).Draw(t, "again") == 0 {
				c = rapid.SampledFrom(done).Draw(t, "which")
			}
			if rapid.IntRange(0, 30).Draw(t, "snapshot") == 0 {
				twin = throughSnapshot(t, twin)
			}
			before := s.Clone()
			r := s.Apply(c)
			if other := twin.Apply(throughLog(t, c)); !reflect.DeepEqual(r, other) {
				t.Fatalf("%+v is answered %+v here and %+v there", c, r, other)
			}
			w.check(t, before, s, c, r)
			if r.Refusal != nil && (c.Take == nil && !sameRuns(before, s)) {
				t.Fatalf("%+v is refused (%v) and changes runs", c, r.Refusal)
			}
			requireIdempotent(t, s, c, r)
			done = append(done, c)
		}
		if a, b := encoded(t, s), encoded(t, twin); !bytes.Equal(a, b) {
			t.Fatalf("one state is\n%s\nthe other\n%s", a, b)
		}
	})
}

func sameRuns(a, b *State) bool {
	return reflect.DeepEqual(a.Runs, b.Runs) && reflect.DeepEqual(a.Experiments, b.Experiments) &&
		a.Changed == b.Changed
}

// requireIdempotent sends a request again, to a copy, where it must be answered alike and change nothing.
func requireIdempotent(t *rapid.T, s *State, c Command, r Response) {
	if c.Request.Client == "" {
		return
	}
	again := s.Clone()
	if answer := again.Apply(c); !reflect.DeepEqual(answer, r) || !sameRuns(again, s) {
		t.Fatalf("%+v was answered %+v, and then %+v", c, r, answer)
	}
}

func throughSnapshot(t *rapid.T, s *State) *State {
	decoded, err := Decode(bytes.NewReader(encoded(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func throughLog(t *rapid.T, c Command) Command {
	data, err := EncodeCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := DecodeCommand(data)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func encoded(t interface{ Fatal(...any) }, s *State) []byte {
	var out bytes.Buffer
	if err := s.Encode(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
