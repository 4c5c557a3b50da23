package rollout

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"testing"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

var start = time.Unix(1000, 0)

func newTestTable(runs string) *runTable {
	return newRunTable(accepts(runs), slog.New(slog.DiscardHandler))
}

// says returns a run's announcement.
func says(run string, epoch, iteration, need, stamp uint64) *proto.Announcement {
	return &proto.Announcement{
		Run: run, Task: "Toy", Position: proto.Position{Epoch: epoch, Batch: iteration},
		Need: proto.Need{Tickets: need, Stamp: stamp},
	}
}

// chosen counts how often each run is chosen, n times, with what is needed announced anew each time.
func chosen(b *runTable, seed uint64, n int, needs map[string]uint64) map[string]int {
	rng := rand.New(rand.NewPCG(seed, 0))
	counts := make(map[string]int)
	for i := range n {
		for run, need := range needs {
			b.hear(says(run, 1, 0, need, uint64(i+1)), start)
		}
		if r := b.choose(rng.Float64()); r != nil {
			counts[r.name]++
		}
	}
	return counts
}

// A run is chosen as often as it needs slots.
func TestChosenByNeed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	counts := chosen(newTestTable(""), seed, 6000, map[string]uint64{"a": 30, "b": 15, "c": 15, "idle": 0})
	for run, want := range map[string]int{"a": 3000, "b": 1500, "c": 1500, "idle": 0} {
		if got := counts[run]; got < want-250 || got > want+250 {
			t.Errorf("run %s was chosen %d times, want about %d", run, got, want)
		}
	}
}

// Slots that play for runs in proportion to the tickets that nobody plays come to play for them in proportion to what
// each can use.
func TestSlotsSpreadByNeed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	useful := map[string]int{"a": 40, "b": 10, "c": 30}
	playing, of := map[string]int{}, make([]string, 16)
	b := newTestTable("")
	sum, rounds := map[string]int{}, 8000
	for round := range rounds {
		slot := rng.IntN(len(of)) // whose episode ends
		if of[slot] != "" {
			playing[of[slot]]--
		}
		for run, n := range useful {
			b.hear(says(run, 1, 0, uint64(n-playing[run]), uint64(round+1)), start)
		}
		of[slot] = b.choose(rng.Float64()).name
		playing[of[slot]]++
		for run, n := range playing {
			sum[run] += n
		}
	}
	for run, n := range useful {
		got, want := float64(sum[run])/float64(rounds), float64(n)/80*16
		if got < 0.85*want || got > 1.15*want {
			t.Errorf("run %s has %.1f of 16 slots on average, want about %.1f", run, got, want)
		}
	}
}

// No more slots ask than there are tickets, and none where there are none.
func TestNoMoreAsksThanTickets(t *testing.T) {
	b := newTestTable("")
	b.hear(says("a", 1, 0, 2, 1), start)
	for i := range 4 {
		if r := b.choose(0.5); (r != nil) != (i < 2) {
			t.Errorf("slot %d chooses %v, of 2 tickets", i, r)
		}
	}
	r := b.runs[0]
	b.replied(r, &proto.Reply{Position: proto.Position{Epoch: 1}, Need: proto.Need{Tickets: 5, Stamp: 3}}, false, start)
	// overtaken
	b.replied(r, &proto.Reply{Position: proto.Position{Epoch: 1}, Need: proto.Need{Tickets: 0, Stamp: 2}}, true, start)
	if r.need != 5 {
		t.Errorf("%d tickets after an answer that came late, want 5", r.need)
	}
	b.missed(r, bus.ErrDisconnected, start)
	if b.choose(0) != nil {
		t.Error("a run whose learner does not answer is asked again")
	}
}

// A learner that vanishes is forgotten, and what is held of its run is stale; one that comes later is found again,
// whatever its epoch.
func TestForgetting(t *testing.T) {
	b := newTestTable("")
	b.hear(says("a", 7, 0, 2, 1), start)
	gone := b.runs[0]
	ticket := proto.Ticket{Run: "a", Epoch: 7}
	if left, _, _ := b.expire(start.Add(forgetAfter)); left != 1 || gone.stale(ticket) {
		t.Error("forgotten too soon")
	}
	b.restored(start.Add(time.Hour)) // nothing could be heard for an hour
	if left, _, _ := b.expire(start.Add(time.Hour)); left != 1 {
		t.Error("forgotten for the server's absence")
	}
	b.hear(says("a", 6, 9, 2, 9), start.Add(time.Hour+forgetAfter)) // of a learner that was replaced
	woken := b.woken()
	if left, _, _ := b.expire(start.Add(time.Hour + forgetAfter + 1)); left != 0 || !gone.stale(ticket) {
		t.Error("a silent learner is not forgotten")
	}
	<-woken
	b.hear(says("a", 1, 0, 2, 1), start)
	if r := b.choose(0); r == nil || r == gone {
		t.Error("the run is not found again")
	}
	b.missed(b.runs[0], bus.ErrNoResponder, start.Add(missAfter+1))
	if len(b.runs) != 0 {
		t.Error("a learner that is silent and takes no requests is not forgotten")
	}
}

// Runs that are not meant, and runs that were given up, are not played for.
func TestOtherRuns(t *testing.T) {
	b := newTestTable("Swimmer-v2/*,exact")
	for _, run := range []string{"Swimmer-v2/npg", "exact", "Hopper-v2/npg", "Swimmer-v2", "exact/more"} {
		b.hear(says(run, 1, 0, 1, 1), start)
	}
	if len(b.runs) != 2 || b.runs[0].name != "Swimmer-v2/npg" || b.runs[1].name != "exact" {
		t.Errorf("%d runs are found", len(b.runs))
	}
	refusal := errors.New("refused")
	b.shun(b.runs[1], refusal)
	if open, refused, reason := b.expire(start); open != 1 || refused != 1 || !errors.Is(reason, refusal) {
		t.Errorf("%d runs are open, %d refused: %v", open, refused, reason)
	}
	b.hear(says("exact", 1, 0, 100, 2), start)
	for range 10 {
		if r := b.choose(0.999); r != nil && r.name == "exact" {
			t.Error("a run that was given up is chosen")
		}
	}
	b.hear(says("exact", 2, 0, 100, 1), start) // another learner may do better
	if r := b.choose(0.999); r == nil || r.name != "exact" {
		t.Error("the next learner's run is not chosen")
	}
}

// Strangers cannot make the table grow without end, nor overflow its sums.
func TestHostileAnnouncements(t *testing.T) {
	b := newTestTable("")
	for i := range maxRuns + 10 {
		b.hear(says(fmt.Sprint("run", i), 1, 0, 1<<63, 1), start)
	}
	if len(b.runs) != maxRuns {
		t.Errorf("%d runs, at most %d are kept", len(b.runs), maxRuns)
	}
	for _, u := range []float64{0, 0.5, 1 - 1e-16} {
		if b.choose(u) == nil {
			t.Errorf("nothing is chosen at %v", u)
		}
	}
}

func TestCheckRuns(t *testing.T) {
	for _, good := range []string{"", "*", "a", "a/b", "a/*,b-[12]", "Swimmer-v?/*"} {
		if err := CheckRuns(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{",", "a,", "a b", "a.b", "[", "a.*", ">"} {
		if CheckRuns(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
