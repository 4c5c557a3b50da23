package collect

import (
	"errors"
	"fmt"
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
				available := l.Need(now) > 0
				ticket, ok := l.Grant(slot, now)
				if available && !ok && l.lost == nil {
					t.Fatal("a ticket was available, but not given out")
				}
				for _, lost := range l.lost { // the learner cannot play it
					l.Release(lost)
				}
				l.lost = nil
				if ok {
					held[slot] = ticket
				}
			case action < 6: // the episode arrives
				if _, err := l.Record(played(holds, length(int(holds.Index)))); err != nil {
					t.Fatal(err)
				}
				delete(held, slot)
			case action == 6: // the actor dies: its lease runs out
				delete(held, slot)
				now = now.Add(time.Minute)
			case action == 7: // the lease runs out although the actor lives
				now = now.Add(time.Minute)
			case action == 8: // the actor leaves
				l.Release(holds)
				delete(held, slot)
			case action == 9: // the answer was lost: the slot asks again
				delete(held, slot)
			}
		}
		for !l.Complete() { // a slot without misfortune plays what is left, once all leases have run out
			now = now.Add(time.Minute)
			ticket, ok := l.Grant(slotNumber(slots), now)
			if !ok && l.lost == nil {
				t.Fatal("the batch is not complete, and no ticket is left")
			}
			if !ok { // the learner plays it
				ticket, l.lost = l.lost[0], l.lost[1:]
			}
			if _, err := l.Record(played(ticket, length(int(ticket.Index)))); err != nil {
				t.Fatal(err)
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
			if len(open) > 0 && (rapid.Bool().Draw(t, "arrives") || l.Need(start) == 0) {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				if _, err := l.Record(played(open[i], length.Draw(t, "length"))); err != nil {
					t.Fatal(err)
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
					if _, err := l.Record(played(ticket, 1000)); err != nil {
						t.Fatal(err)
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
				if _, err := l.Record(played(*ticket, 1000)); err != nil {
					t.Fatal(err)
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
		l.Record(played(ticket, 5))
	}
	if l.Complete() {
		t.Fatal("the batch is complete without its first ticket")
	}
	l.Record(played(first, 7))
	if batch := l.Batch(); !l.Complete() || len(batch) != 2 || batch[0].Steps() != 7 || batch[1].Steps() != 5 {
		t.Errorf("batch of %d episodes, complete %v; want those of 7 and 5 steps", len(batch), l.Complete())
	}
}

func TestFirstEpisodeWins(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 1}, time.Minute)
	ticket, _ := l.Grant(slotNumber(0), start)
	again, ok := l.Grant(slotNumber(1), start.Add(time.Minute))
	if !ok || again != ticket {
		t.Fatalf("after the lease: %v, %v; want %v again", again, ok, ticket)
	}
	one, two := played(ticket, 3), played(ticket, 3)
	if won, err := l.Record(one); !won || err != nil {
		t.Errorf("the first episode: %v, %v", won, err)
	}
	if won, err := l.Record(two); won || err != nil {
		t.Errorf("the second episode: %v, %v", won, err)
	}
	if l.entries[0].episodes[0] != one || l.received != 3 {
		t.Error("the second episode took the first one's place")
	}
	if l.Wanted(ticket) {
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
		if _, err := l.Record(played(ticket, 3)); !errors.Is(err, errUnknown) {
			t.Errorf("%+v: %v", ticket, err)
		}
		if l.Wanted(ticket) {
			t.Errorf("%+v is wanted", ticket)
		}
	}
}

// A ticket whose lease runs out twice, under whatever names it was held, is left to the learner, and no actor has it
// until then.
func TestLostTicket(t *testing.T) {
	l := NewLedger(ticketZero, 1, Lengths{Mean: 1}, time.Minute)
	now := start
	for try := range maxLost {
		if ticket, ok := l.Grant(proto.Slot{Actor: fmt.Sprint("stranger ", try)}, now); !ok || ticket != ticketZero ||
			l.lost != nil {
			t.Fatalf("try %d: %v, %v, lost %v", try, ticket, ok, l.lost)
		}
		now = now.Add(time.Minute)
	}
	if ticket, ok := l.Grant(proto.Slot{Actor: "honest"}, now); ok || len(l.lost) != 1 || l.lost[0] != ticketZero {
		t.Fatalf("then: %v, %v, lost %v", ticket, ok, l.lost)
	}
	if !l.Take(ticketZero) {
		t.Fatal("the learner does not get it")
	}
	if _, ok := l.Grant(proto.Slot{Actor: "honest"}, now.Add(time.Hour)); ok {
		t.Error("an actor has what the learner plays")
	}
	l.Release(ticketZero) // it cannot
	if _, ok := l.Grant(proto.Slot{Actor: "honest"}, now.Add(time.Hour)); !ok {
		t.Error("nobody has what the learner cannot play")
	}
}

// What a slot did is undone: its episodes are dropped, from the prefix too, and its tickets are issued again.
func TestDisown(t *testing.T) {
	l := NewLedger(ticketZero, 40, Lengths{Mean: 10}, time.Minute)
	for n := range 4 {
		ticket, _ := l.Grant(slotNumber(n), start)
		if n < 3 {
			l.Record(played(ticket, 10))
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
		l.Record(played(ticket, 10))
	}
	if !l.Complete() || l.Disown(liar) != 0 {
		t.Error("a complete batch changes")
	}
}

// A slot that asks while it holds a ticket has lost it: the ticket is given out again at once.
func TestSlotAsksAgain(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 10}, time.Hour)
	first, _ := l.Grant(slotNumber(0), start)
	if again, ok := l.Grant(slotNumber(0), start); !ok || again != first {
		t.Errorf("the second time: ticket %d, %v; want ticket 0", again.Index, ok)
	}
	if _, ok := l.Grant(slotNumber(1), start); ok {
		t.Error("another slot was given a ticket that is held")
	}
}

// A lease is renewed by its holder only, and not for ever.
func TestRenew(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 10}, time.Minute)
	ticket, _ := l.Grant(slotNumber(0), start)
	later := start.Add(30 * time.Second)
	l.Renew(ticket, slotNumber(1), later)
	if _, ok := l.Grant(slotNumber(1), start.Add(59*time.Second)); ok {
		t.Error("given out again before the lease ended")
	}
	l.Renew(ticket, slotNumber(0), later)
	if _, ok := l.Grant(slotNumber(1), start.Add(61*time.Second)); ok {
		t.Error("given out again although it was renewed")
	}
	if got, ok := l.Grant(slotNumber(1), later.Add(time.Minute)); !ok || got != ticket {
		t.Errorf("after the renewed lease: %v, %v", got, ok)
	}
	l = NewLedger(ticketZero, 10, Lengths{Mean: 10}, time.Minute)
	l.Grant(slotNumber(1), later)
	for now := later; now.Before(later.Add(time.Hour)); now = now.Add(30 * time.Second) {
		l.Renew(ticket, slotNumber(1), now)
	}
	if _, ok := l.Grant(slotNumber(2), later.Add(time.Hour)); !ok {
		t.Error("a slot renews for ever")
	}
}
