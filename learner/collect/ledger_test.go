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
	ticketZero = proto.Ticket{Run: "r", Epoch: 1, Iteration: 2, Seed: 3}
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
		l := NewLedger(ticketZero, minSteps, Lengths{Mean: expected}, time.Minute, nil)
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
				if available && !ok {
					t.Fatal("a ticket was available, but not given out")
				}
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
				if err := l.Release(holds, slot, "", now); err != nil {
					t.Fatal(err)
				}
				delete(held, slot)
			case action == 9: // the answer was lost: the slot asks again
				delete(held, slot)
			}
		}
		for !l.Complete() { // a slot without misfortune plays what is left, once all leases have run out
			now = now.Add(time.Minute)
			ticket, ok := l.Grant(slotNumber(slots), now)
			if !ok {
				t.Fatal("the batch is not complete, and no ticket is left")
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
		l := NewLedger(ticketZero, minSteps, Lengths{Mean: limit}, time.Minute, nil)
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
			l := NewLedger(ticketZero, 15_000, Lengths{Mean: 1000}, time.Minute, nil)
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

// Tickets given ahead, while another slot has the executor, cost nobody a turn at the end: 15 tickets take no more rounds
// than they must, on any number of executors.
func TestNoTicketWaitsWhileASeatIsFree(t *testing.T) {
	const tickets = 15
	for executors := 1; executors <= tickets+1; executors++ {
		l := NewLedger(ticketZero, tickets*1000, Lengths{Mean: 1000}, time.Minute, nil)
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
	l := NewLedger(ticketZero, 10, Lengths{Mean: 1}, time.Minute, nil)
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
	l := NewLedger(ticketZero, 10, Lengths{Mean: 1}, time.Minute, nil)
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
	l := NewLedger(ticketZero, 10, Lengths{Mean: 1}, time.Minute, nil)
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
		change(func(t *proto.Ticket) { t.Iteration-- }),
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

// A ticket that fails three times in its holders' hands is given up; what others say of it does not count.
func TestFailingTicket(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 1}, time.Minute, nil)
	for try := range maxFailures {
		slot := slotNumber(try)
		ticket, ok := l.Grant(slot, start)
		if !ok || ticket.Index != 0 {
			t.Fatalf("try %d: ticket %d, %v", try, ticket.Index, ok)
		}
		for range 5 {
			if err := l.Release(ticket, slotNumber(99), "slander", start); err != nil {
				t.Fatal(err)
			}
		}
		err := l.Release(ticket, slot, "diverged", start)
		if failed := errors.Is(err, errFailed); failed != (try == maxFailures-1) {
			t.Errorf("try %d: %v", try, err)
		}
	}
}

// Strangers who are the first to ask for the tickets of an iteration do not end the run: an actor that proved itself is still
// there, though it has not asked yet. Once it has been silent for a lease, they do.
func TestStrangersAskFirst(t *testing.T) {
	for _, silent := range []time.Duration{30 * time.Second, 2 * time.Minute} {
		proven := map[string]bool{"honest": true}
		before := NewLedger(ticketZero, 1, Lengths{Mean: 1}, time.Minute, proven)
		before.Grant(proto.Slot{Actor: "honest"}, start)
		before.Grant(proto.Slot{Actor: "stranger"}, start)
		l := NewLedger(ticketZero, 1, Lengths{Mean: 1}, time.Minute, proven)
		l.follow(before.asked)
		if len(l.asked) != 1 {
			t.Errorf("the next iteration knows %v, want the proven actor alone", l.asked)
		}
		var failed error
		for i := range maxFailures {
			slot, now := slotNumber(i), start.Add(silent)
			ticket, ok := l.Grant(slot, now)
			if !ok { // it is left to the honest one
				break
			}
			failed = l.Release(ticket, slot, "it fails, believe me", now)
		}
		if ended := errors.Is(failed, errFailed); ended != (silent > time.Minute) {
			t.Errorf("after %v of silence: %v", silent, failed)
		}
	}
}

// A stranger who spoils tickets under ever new names neither ends the run nor keeps a ticket from an actor that has proven
// itself; when all of those fail too, it ends.
func TestStrangerSpoilsTickets(t *testing.T) {
	l := NewLedger(ticketZero, 3, Lengths{Mean: 1}, time.Minute, map[string]bool{"honest": true, "gone": true})
	honest := proto.Slot{Actor: "honest"}
	l.Grant(honest, start)
	if err := l.Release(ticketZero, honest, "", start); err != nil { // it is there, and gave its ticket back
		t.Fatal(err)
	}
	for i := range 100 {
		stranger := proto.Slot{Actor: fmt.Sprint("stranger ", i)}
		ticket, ok := l.Grant(stranger, start)
		if !ok {
			continue
		}
		if i >= 3 {
			t.Fatalf("stranger %d is given ticket %d, which failed before", i, ticket.Index)
		}
		if err := l.Release(ticket, stranger, "it fails, believe me", start); err != nil {
			t.Fatal(err)
		}
	}
	for try := range maxFailures {
		ticket, ok := l.Grant(honest, start)
		if !ok || ticket != ticketZero {
			t.Fatalf("the honest actor is given %v, %v", ticket, ok)
		}
		if err := l.Release(ticket, honest, "diverged", start); errors.Is(err, errFailed) != (try >= maxFailures-2) {
			t.Errorf("try %d: %v", try, err)
		}
	}
}

// A ticket that was never answered for goes to an actor that has proven itself, while there is one.
func TestStrangerKeepsTickets(t *testing.T) {
	l := NewLedger(ticketZero, 1, Lengths{Mean: 1}, time.Minute, map[string]bool{"honest": true})
	if _, ok := l.Grant(proto.Slot{Actor: "stranger"}, start); !ok {
		t.Fatal("no ticket")
	}
	honest, late := proto.Slot{Actor: "honest"}, start.Add(time.Minute)
	if _, ok := l.Grant(honest, late.Add(-time.Second)); ok {
		t.Fatal("a ticket that is held is given out")
	}
	if _, ok := l.Grant(proto.Slot{Actor: "another stranger"}, late); ok {
		t.Error("the lost ticket goes to another stranger")
	}
	if _, ok := l.Grant(honest, late); !ok {
		t.Error("the lost ticket is not given to a proven actor")
	}
	if _, ok := l.Grant(proto.Slot{Actor: "newcomer"}, late.Add(2*time.Minute)); !ok {
		t.Error("it is kept for proven actors that are gone")
	}
}

// A slot that asks while it holds a ticket has lost it: the ticket is given out again at once.
func TestSlotAsksAgain(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 10}, time.Hour, nil)
	first, _ := l.Grant(slotNumber(0), start)
	if again, ok := l.Grant(slotNumber(0), start); !ok || again != first {
		t.Errorf("the second time: ticket %d, %v; want ticket 0", again.Index, ok)
	}
	if _, ok := l.Grant(slotNumber(1), start); ok {
		t.Error("another slot was given a ticket that is held")
	}
}

// A lease is renewed by its holder only.
func TestRenew(t *testing.T) {
	l := NewLedger(ticketZero, 10, Lengths{Mean: 10}, time.Minute, nil)
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
}
