package collect

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dbqpg/dbqpg/proto"
)

// tasks are episode lengths as there are: all end at the limit, or fall in the middle, or most fall at once.
var tasks = map[string]func(*rand.Rand) int{
	"always 1000":     func(*rand.Rand) int { return 1000 },
	"500 to 1000":     func(r *rand.Rand) int { return 500 + r.IntN(501) },
	"1 to 1000":       func(r *rand.Rand) int { return 1 + r.IntN(1000) },
	"exponential 100": func(r *rand.Rand) int { return 1 + min(999, int(100*r.ExpFloat64())) },
	"normal 100":      func(r *rand.Rand) int { return max(1, int(100+20*r.NormFloat64())) },
	"mostly short": func(r *rand.Rand) int {
		if r.IntN(10) == 0 {
			return 1000
		}
		return 20 + r.IntN(50)
	},
}

// iterationOf returns the lengths of an iteration's tickets, and what is to be expected of them.
func iterationOf(draw func(*rand.Rand) int, seed uint64) (length func(index int) int, expected Lengths) {
	r := rand.New(rand.NewPCG(seed, 1))
	var lengths []int
	length = func(index int) int {
		for len(lengths) <= index {
			lengths = append(lengths, draw(r))
		}
		return lengths[index]
	}
	const others = 1000
	sum, squares := 0.0, 0.0
	for range others {
		x := float64(draw(r))
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / others
	return length, Lengths{Mean: mean, Spread: math.Sqrt(max(0, squares/others-mean*mean))}
}

// ending is an episode under way.
type ending struct {
	at     int // in steps since the beginning
	ticket proto.Ticket
	slot   int
}

// endings are episodes by their ends.
type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].ticket.Index < e[j].ticket.Index
}
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)   { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// schedule has slots play a ledger's tickets, a step a tick, and returns after how many ticks its batch is complete.
func schedule(t testing.TB, l *Ledger, slots int, length func(int) int) (ticks int) {
	var playing endings
	idle := make([]int, slots)
	for i := range idle {
		idle[i] = i
	}
	for !l.Complete() {
		for len(idle) > 0 {
			slot := idle[len(idle)-1]
			ticket, ok := l.Grant(slotNumber(slot), start)
			if !ok {
				break
			}
			idle = idle[:len(idle)-1]
			heap.Push(&playing, ending{ticks + length(int(ticket.Index)), ticket, slot})
		}
		next := heap.Pop(&playing).(ending)
		ticks = next.at
		idle = append(idle, next.slot)
		if !l.Record(slotNumber(next.slot), start, played(next.ticket, length(int(next.ticket.Index)))) {
			t.Fatal("not recorded")
		}
	}
	return ticks
}

// bound returns the bound of the prefix rule: the number of ticks after which the batch is complete if each slot takes
// the next ticket as soon as it is free, however many are needed.
func bound(slots, minSteps int, length func(int) int) (ticks int) {
	free := make([]int, slots) // when each slot is
	for steps, index := 0, 0; steps < minSteps; index++ {
		first := 0
		for slot := range free {
			if free[slot] < free[first] {
				first = slot
			}
		}
		free[first] += length(index)
		ticks = max(ticks, free[first]) // the prefix waits for its longest
		steps += length(index)
	}
	return ticks
}

// Giving out no more tickets than are useful costs no more than 10 % of the time that any number of slots could reach,
// on average over iterations, whatever the lengths.
func TestScheduleIsNearTheBound(t *testing.T) {
	const minSteps, iterations = 15_000, 60
	for name, draw := range tasks {
		for _, slots := range []int{1, 4, 16, 64, 256} {
			took, least := 0, 0
			_, expected := iterationOf(draw, 0)
			for seed := range uint64(iterations) {
				length, _ := iterationOf(draw, seed)
				l := NewLedger(ticketZero, minSteps, expected, time.Minute)
				took += schedule(t, l, slots, length)
				least += bound(slots, minSteps, length)
				expected = lengthsOf(l.Batch()) // as the collector has it
			}
			ratio := float64(took) / float64(least)
			t.Logf("%s, %d slots: %d steps' time a batch, %.3f of the bound", name, slots, took/iterations, ratio)
			if took < least || ratio > 1.1 {
				t.Errorf("%s, %d slots: %.3f of the bound", name, slots, ratio)
			}
		}
	}
}

// As many slots as are useful have the batch nearly as soon as twice as many.
func TestMoreThanUsefulHardlyHelps(t *testing.T) {
	const minSteps, iterations = 15_000, 60
	for name, draw := range tasks {
		took, twice, useful := 0, 0, 0
		for seed := range uint64(iterations) {
			length, expected := iterationOf(draw, seed)
			l := NewLedger(ticketZero, minSteps, expected, time.Minute)
			n := l.Useful()
			if mean := expected.Mean; n < int(math.Ceil(minSteps/mean)) || expected.Spread == 0 &&
				n != int(math.Ceil(minSteps/mean)) {
				t.Fatalf("%s: %d are useful, with lengths %+v", name, n, expected)
			}
			useful += n
			took += schedule(t, l, n, length)
			twice += bound(2*n, minSteps, length)
		}
		t.Logf("%s: %d slots take %d steps' time a batch, twice as many %d", name, useful/iterations, took/iterations,
			twice/iterations)
		if ratio := float64(took) / float64(twice); ratio > 1.15 {
			t.Errorf("%s: twice as many slots would be %.2f times as fast", name, ratio)
		}
	}
}

// usefulSlowly counts the tickets that are useful as the definition has it: those not completed that have no more than
// tail standard deviations between the steps expected before them and the end of the batch.
func usefulSlowly(l *Ledger) (n int) {
	for i := 0; !l.Complete(); i++ {
		before, variance := 0.0, 0.0
		for j := range i {
			if j < len(l.entries) && l.entries[j].episodes != nil {
				before += float64(l.entries[j].steps)
			} else {
				before += l.lengths.Mean
				variance += l.lengths.Spread * l.lengths.Spread
			}
		}
		if before-tail*math.Sqrt(variance) >= float64(l.minSteps) {
			return n
		}
		if i >= len(l.entries) || l.entries[i].episodes == nil {
			n++
		}
	}
	return n
}

// Useful is what its definition says, Need is what Grant then gives out, and each ticket given out is useful.
func TestUseful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(ticketZero, rapid.IntRange(1, 300).Draw(t, "minSteps"),
			Lengths{Mean: float64(rapid.IntRange(1, 30).Draw(t, "mean")),
				Spread: float64(rapid.IntRange(0, 30).Draw(t, "spread"))}, time.Minute)
		type holding struct {
			ticket proto.Ticket
			slot   proto.Slot
		}
		var held []holding
		for slot := 0; !l.Complete() && slot < 1000; slot++ {
			useful, need := l.Useful(), l.Need()
			if slow := usefulSlowly(l); useful != slow {
				t.Fatalf("%d are useful, by the definition %d", useful, slow)
			}
			if need > useful || need < useful-len(held) {
				t.Fatalf("%d are needed, %d useful, %d held", need, useful, len(held))
			}
			ticket, ok := l.Grant(slotNumber(slot), start)
			if ok != (need > 0) || ok && l.Need() != need-1 {
				t.Fatalf("a ticket: %v, with %d needed before and %d after", ok, need, l.Need())
			}
			if ok {
				held = append(held, holding{ticket, slotNumber(slot)})
			}
			if len(held) > 0 && (!ok || rapid.Bool().Draw(t, "ends")) {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if rapid.IntRange(0, 4).Draw(t, "dies") == 0 {
					l.Return(held[i].ticket, held[i].slot, "")
				} else if !l.Record(held[i].slot, start, played(held[i].ticket, rapid.IntRange(1, 60).Draw(t, "length"))) {
					t.Fatal("not recorded")
				}
				held = append(held[:i], held[i+1:]...)
			}
		}
	})
}

// At an iteration's beginning, with a slot for each useful ticket: even the last slot's episode counts fairly often;
// and always the last of those that fill the batch in expectation.
func TestLastUsefulSlotCounts(t *testing.T) {
	const minSteps, iterations = 15_000, 400
	for name, draw := range tasks {
		counts := 0
		for seed := range uint64(iterations) {
			length, expected := iterationOf(draw, seed)
			steps := 0
			for index := range NewLedger(ticketZero, minSteps, expected, time.Minute).Useful() - 1 {
				steps += length(index)
			}
			if steps < minSteps {
				counts++
			}
		}
		t.Logf("%s: the last useful slot's episode counts in %d of %d iterations", name, counts, iterations)
		if counts < iterations/10 {
			t.Errorf("%s: the last useful slot's episode counts in %d of %d iterations", name, counts, iterations)
		}
	}
}
