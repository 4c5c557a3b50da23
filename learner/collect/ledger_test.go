package collect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dbqpg/dbqpg/proto"
)

var (
	ticketZero = proto.Ticket{Run: "r", Epoch: 1, Batch: 2, Seed: 3}
	start      = time.Unix(1000, 0)
)

// played returns an episode of so many steps.
func played(t proto.Ticket, steps int) *proto.Episode {
	return &proto.Episode{Ticket: t, Rewards: make([]float64, steps)}
}

func slotNumber(n int) proto.Slot { return proto.Slot{Actor: "a", Number: uint64(n)} }

// serial is the slow twin: one sampler plays one ticket after the other. It returns the number of tickets played.
func serial(lengths func(index int) int, minSteps int) int {
	steps, tickets := 0, 0
	for ; steps < minSteps; tickets++ {
		steps += lengths(tickets)
	}
	return tickets
}

// Whatever slots do, in whatever order and however often they fail, the batch is the serial sampler's.
func TestBatchIsSerialPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 50).Draw(t, "lengths")
		length := func(index int) int { return lengths[index%len(lengths)] }
		minSteps := rapid.IntRange(1, 400).Draw(t, "minSteps")
		expected := rapid.Float64Range(1, 30).Draw(t, "expected")
		slots := rapid.IntRange(1, 8).Draw(t, "slots")
		l := NewLedger(ticketZero, minSteps, Lengths{Mean: expected}, time.Minute)
		held := map[proto.Slot]proto.Ticket{}
		now := start
		for range 100_000 {
			if l.Complete() {
				break
			}
			slot := slotNumber(rapid.IntRange(0, slots-1).Draw(t, "slot"))
			holds, busy := held[slot]
			switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
			case !busy:
				available := l.Need() > 0
				ticket, ok := l.Grant(slot, now)
				if available && !ok {
					t.Fatal("a ticket was available, but not given out")
				}
				if ok {
					held[slot] = ticket
				}
			case action < 6: // the episode arrives
				wanted := l.Wants(holds, slot)
				if won := wanted && l.Record(slot, now, played(holds, length(int(holds.Index)))); won != wanted {
					t.Fatal("a wanted episode is not recorded")
				}
				delete(held, slot)
			case action == 6: // the actor dies: its lease runs out
				delete(held, slot)
				now = now.Add(time.Minute)
				l.Expire(now)
			case action == 7: // the lease runs out although the actor lives
				now = now.Add(time.Minute)
				l.Expire(now)
			case action == 8: // the actor leaves, or cannot play it, or the learner plays
				l.Return(holds, slot, rapid.SampledFrom([]string{"", "it fails"}).Draw(t, "reason"))
				delete(held, slot)
				if mine, ok := l.Take(now, rapid.Bool().Draw(t, "all")); ok {
					l.Record(learner, now, played(mine, length(int(mine.Index))))
				}
			case action == 9: // the answer was lost: the slot asks again
				delete(held, slot)
			}
		}
		for !l.Complete() { // a slot without misfortune plays what is left, once all leases have run out
			now = now.Add(time.Minute)
			l.Expire(now)
			slot := slotNumber(slots)
			ticket, ok := l.Grant(slot, now)
			if !ok { // the learner plays it
				slot = learner
				ticket, ok = l.Take(now, false)
			}
			if !ok || !l.Record(slot, now, played(ticket, length(int(ticket.Index)))) {
				t.Fatal("the batch is not complete, and no ticket is left")
			}
		}
		batch := l.Batch()
		if want := serial(length, minSteps); len(batch) != want {
			t.Fatalf("%d episodes, the serial sampler plays %d", len(batch), want)
		}
		for i, e := range batch {
			if e.Ticket.Index != uint64(i) || e.Steps() != length(i) {
				t.Fatalf("episode %d is that of ticket %d, %d steps", i, e.Ticket.Index, e.Steps())
			}
		}
	})
}

// While no episode is longer than expected, nothing is played in vain, however many slots there are.
func TestNoWasteBelowExpectation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 30
		length := rapid.IntRange(1, limit)
		minSteps := rapid.IntRange(1, 1000).Draw(t, "minSteps")
		l := NewLedger(ticketZero, minSteps, Lengths{Mean: limit}, time.Minute)
		var open []proto.Ticket
		for slots := 0; !l.Complete(); slots++ {
			if ticket, ok := l.Grant(slotNumber(slots), start); ok {
				open = append(open, ticket)
			}
			if len(open) > 0 && (rapid.Bool().Draw(t, "arrives") || l.Need() == 0) {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				if !l.Record(slotNumber(0), start, played(open[i], length.Draw(t, "length"))) {
					t.Fatal("not recorded")
				}
				open = append(open[:i], open[i+1:]...)
			}
		}
		if l.Wasted() != 0 || len(open) != 0 {
			t.Fatalf("%d steps and %d tickets in vain", l.Wasted(), len(open))
		}
	})
}

// A batch of 15,000 steps takes exactly 15 episodes of 1,000, from 1 slot or from 64.
func TestFifteenTickets(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 15, 16, 64} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			l := NewLedger(ticketZero, 15_000, Lengths{Mean: 1000}, time.Minute)
			granted := 0
			for !l.Complete() {
				var round []proto.Ticket
				for n := range slots {
					if ticket, ok := l.Grant(slotNumber(n), start); ok {
						round = append(round, ticket)
					}
				}
				granted += len(round)
				for _, ticket := range round {
					if !l.Record(slotNumber(0), start, played(ticket, 1000)) {
						t.Fatal("not recorded")
					}
				}
			}
			if granted != 15 || len(l.Batch()) != 15 || l.Wasted() != 0 {
				t.Errorf("%d tickets given out, %d in the batch, %d steps in vain", granted, len(l.Batch()), l.Wasted())
			}
		})
	}
}

// Tickets given ahead, while another slot has the executor, cost nobody a turn at the end: 15 tickets take no more
// rounds than they must, on any number of executors.
func TestNoTicketWaitsWhileASeatIsFree(t *testing.T) {
	const tickets = 15
	for executors := 1; executors <= tickets+1; executors++ {
		l := NewLedger(ticketZero, tickets*1000, Lengths{Mean: 1000}, time.Minute)
		ahead := make([][]proto.Ticket, executors) // what each executor's slots hold and can't play yet
		given, rounds := 0, 0
		sending := make([]*proto.Ticket, executors)
		for ; !l.Complete(); rounds++ {
			playing := make([]*proto.Ticket, executors)
			for executor := range executors {
				if n := len(ahead[executor]); n > 0 {
					playing[executor], ahead[executor] = &ahead[executor][0], ahead[executor][1:]
				} else if ticket, ok := l.Grant(slotNumber(2*executor+rounds%2), start); ok {
					playing[executor] = &ticket
				}
			}
			for executor, ticket := range sending { // the last round's episodes arrive during this one
				if ticket == nil {
					continue
				}
				if !l.Record(slotNumber(0), start, played(*ticket, 1000)) {
					t.Fatal("not recorded")
				}
				if l.Plenty() {
					next, _ := l.Grant(slotNumber(2*executor+(rounds+1)%2), start)
					ahead[executor] = append(ahead[executor], next)
					given++
				}
			}
			sending = playing
		}
		if least := (tickets + executors - 1) / executors; rounds-1 != least {
			t.Errorf("%d executors take %d rounds, want %d", executors, rounds-1, least)
		}
		if executors == 1 && given == 0 {
			t.Error("no ticket was given ahead")
		}
	}
}

// Long episodes that come late are not passed over: the batch waits for them.
func TestPrefixWaitsForTheFirst(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 1}, time.Minute)
	first, _ := l.Grant(slotNumber(0), start)
	for n := 1; n <= 2; n++ {
		ticket, ok := l.Grant(slotNumber(n), start)
		if !ok {
			t.Fatalf("no ticket for slot %d", n)
		}
		l.Record(slotNumber(0), start, played(ticket, 5))
	}
	if l.Complete() {
		t.Fatal("the batch is complete without its first ticket")
	}
	l.Record(slotNumber(0), start, played(first, 7))
	if batch := l.Batch(); !l.Complete() || len(batch) != 2 || batch[0].Steps() != 7 || batch[1].Steps() != 5 {
		t.Errorf("batch of %d episodes, complete %v; want those of 7 and 5 steps", len(batch), l.Complete())
	}
}

// The first episode of any slot to which a ticket was issued counts, however late.
func TestFirstEpisodeWins(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 10}, time.Minute)
	ticket, _ := l.Grant(slotNumber(0), start)
	later := start.Add(time.Minute)
	if late := l.Expire(later.Add(-1)); late != nil {
		t.Errorf("late before the lease has run out: %v", late)
	}
	if late := l.Expire(later); !slices.Equal(late, []proto.Slot{slotNumber(0)}) {
		t.Errorf("late: %v", late)
	}
	if late := l.Expire(later); late != nil {
		t.Errorf("late again: %v", late)
	}
	again, ok := l.Grant(slotNumber(1), later)
	if !ok || again != ticket {
		t.Fatalf("after the lease: %v, %v; want %v again", again, ok, ticket)
	}
	for n, want := range []bool{true, true, false} {
		if l.Wants(ticket, slotNumber(n)) != want {
			t.Errorf("wanted from slot %d: %v", n, !want)
		}
	}
	one, two := played(ticket, 3), played(ticket, 3)
	if !l.Record(slotNumber(0), later, one) || l.Record(slotNumber(1), later, two) {
		t.Error("the second episode counts, or the first does not")
	}
	if l.entries[0].episodes[0] != one || l.entries[0].by != slotNumber(0) || l.received != 3 {
		t.Error("the second episode took the first one's place")
	}
	if l.Wants(ticket, slotNumber(1)) {
		t.Error("a completed ticket is still wanted")
	}
}

func TestUnknownTickets(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 1}, time.Minute)
	l.Grant(slotNumber(0), start)
	change := func(f func(*proto.Ticket)) proto.Ticket {
		ticket := ticketZero
		f(&ticket)
		return ticket
	}
	for _, ticket := range []proto.Ticket{
		change(func(t *proto.Ticket) { t.Run = "other" }),
		change(func(t *proto.Ticket) { t.Epoch++ }),
		change(func(t *proto.Ticket) { t.Epoch-- }),
		change(func(t *proto.Ticket) { t.Batch-- }),
		change(func(t *proto.Ticket) { t.Index = 1 }),
		change(func(t *proto.Ticket) { t.Index = 1 << 63 }),
		change(func(t *proto.Ticket) { t.Seed++ }),
	} {
		if l.Record(slotNumber(0), start, played(ticket, 3)) || l.Wants(ticket, slotNumber(0)) ||
			l.Return(ticket, slotNumber(0), "") {
			t.Errorf("%+v is taken", ticket)
		}
	}
}

// The learner is issued tickets that slots failed, which nobody else is then, or have let lapse; or any.
func TestLearnersTickets(t *testing.T) {
	l := NewLedger(ticketZero, 40, Lengths{Mean: 10}, time.Minute)
	for n := range 2 {
		l.Grant(slotNumber(n), start)
	}
	if ticket, ok := l.Take(start, false); ok {
		t.Fatalf("the learner takes an actor's %v", ticket)
	}
	failed := ticketZero
	if l.Return(failed, slotNumber(1), "slander") || !l.Return(failed, slotNumber(0), "it fails") {
		t.Error("a ticket is returned by others than its holder")
	}
	if ticket, ok := l.Grant(slotNumber(2), start); !ok || ticket.Index != 2 {
		t.Errorf("an actor has %v, %v, which failed", ticket, ok)
	}
	if ticket, ok := l.Take(start, false); !ok || ticket != failed {
		t.Errorf("the learner takes %v, %v", ticket, ok)
	}
	later := start.Add(time.Minute)
	l.Expire(later)
	for want := range uint64(3) {
		if ticket, ok := l.Take(later, false); !ok || ticket.Index != want {
			t.Errorf("after the lease the learner takes %v, %v, want %d", ticket, ok, want)
		}
	}
	if ticket, ok := l.Take(later, false); ok {
		t.Errorf("the learner takes the new %v", ticket)
	}
	if ticket, ok := l.Take(later, true); !ok || ticket.Index != 3 {
		t.Errorf("all: the learner takes %v, %v", ticket, ok)
	}
	l.Release() // it cannot play
	for want := range uint64(4) {
		if ticket, ok := l.Grant(slotNumber(int(10+want)), later); !ok || ticket.Index != want {
			t.Errorf("released: an actor has %v, %v, want %d", ticket, ok, want)
		}
	}
}

// What a slot did is undone: its episodes are dropped, from the prefix too, and its tickets are issued again.
func TestDisown(t *testing.T) {
	l := NewLedger(ticketZero, 40, Lengths{Mean: 10}, time.Minute)
	for n := range 4 {
		ticket, _ := l.Grant(slotNumber(n), start)
		if n < 3 {
			l.Record(slotNumber(n), start, played(ticket, 10))
		}
	}
	liar := func(slot proto.Slot) bool { return slot.Number == 1 || slot.Number == 3 }
	if n := l.Disown(liar); n != 1 || l.prefix != 1 || l.steps != 10 || l.received != 20 || l.open != 2 {
		t.Errorf("%d discarded, prefix %d of %d steps, %d received, %d open", n, l.prefix, l.steps, l.received, l.open)
	}
	for _, want := range []uint64{1, 3} {
		ticket, ok := l.Grant(slotNumber(10), start)
		if !ok || ticket.Index != want {
			t.Fatalf("issued again: %v, %v, want %d", ticket, ok, want)
		}
		l.Record(slotNumber(0), start, played(ticket, 10))
	}
	if !l.Complete() || l.Disown(liar) != 0 {
		t.Error("a complete batch changes")
	}
}

// A slot that asks while it holds a ticket is issued that again, under the same lease.
func TestSlotAsksAgain(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 10}, time.Hour)
	first, _ := l.Grant(slotNumber(0), start)
	if again, ok := l.Grant(slotNumber(0), start.Add(time.Minute)); !ok || again != first {
		t.Errorf("the second time: ticket %d, %v; want ticket 0", again.Index, ok)
	}
	if late := l.Expire(start.Add(time.Hour)); len(late) != 1 {
		t.Error("the lease is longer because the slot has asked again")
	}
	l.Return(first, slotNumber(0), "")
	l.Grant(slotNumber(0), start)
	if _, ok := l.Grant(slotNumber(1), start); ok {
		t.Error("another slot was given a ticket that is held")
	}
}

// A lease follows the time that most tickets took for a step, within bounds.
func TestLease(t *testing.T) {
	l := NewLedger(ticketZero, 1000, Lengths{Mean: 100}, 10*time.Second)
	lease := func() time.Duration { return l.Lease(1000, 2*time.Second, 5*time.Minute) }
	if lease() != 10*time.Second {
		t.Errorf("a lease of %v before a duration is known", lease())
	}
	complete := func(n int, took time.Duration) {
		ticket, ok := l.Grant(slotNumber(n), start)
		if !ok || !l.Record(slotNumber(n), start.Add(took), played(ticket, 100)) {
			t.Fatal("not recorded")
		}
	}
	for n := range 3 {
		complete(n, 1500*time.Millisecond) // 15 ms a step
	}
	complete(3, time.Hour)
	complete(4, time.Hour)
	if lease() != 60*time.Second {
		t.Errorf("a lease of %v for 1,000 steps of 15 ms", lease())
	}
	for n := range 2 {
		complete(n, time.Hour)
	}
	if lease() != 5*time.Minute {
		t.Errorf("a lease of %v, for most tickets took an hour", lease())
	}
	l = NewLedger(ticketZero, 1000, Lengths{Mean: 100}, 10*time.Second)
	complete(0, time.Millisecond)
	if lease() != 2*time.Second {
		t.Errorf("a lease of %v for a fast task", lease())
	}
}
