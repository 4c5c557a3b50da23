package registry

import (
	"strings"
	"testing"
	"time"
)

// A learner of a run that was removed, or of before a restore, can do nothing to the run that has the name now.
func TestNoEpochTwice(t *testing.T) {
	c := newClock(t)
	zombies := []Hold{}
	again := func() Hold {
		c.t.Helper()
		c.now = c.now.Add(time.Minute) // the lease expires, if there is one
		h := c.take("", "new")
		if run := c.Run(h.Run); run.ID >= run.Epoch {
			t.Errorf("%+v", run)
		}
		for _, z := range zombies {
			c.do(StaleEpoch, Command{End: &End{Hold: z, State: Done}})
			c.do(StaleEpoch, Command{End: &End{z, Failed, "why"}})
		}
		zombies = append(zombies, h)
		return h
	}
	for range 3 { // the name is used again
		c.do("", Command{Submit: &Submit{spec("a", 1)}})
		again()
		c.commit("", again(), 0, "", hash(1))
		c.do("", Command{Steer: &Steer{Name: "a", Action: Cancel}})
		c.do("", Command{Remove: &Remove{"a"}})
	}
	c.do("", Command{Submit: &Submit{spec("a", 1)}})
	backup := encoded(t, c.State)
	for i := range 2 { // of the same backup, a minute later
		s, err := Decode(strings.NewReader(string(backup)))
		if err != nil {
			t.Fatal(err)
		}
		before := c.Index
		s.Restore(start.Add(time.Duration(i) * time.Minute))
		if c.State = s; c.Changed <= before || c.Run(runName("a", 1)).Changed <= before {
			t.Errorf("who waits for a change after %d is not told: %+v", before, c.Run(runName("a", 1)))
		}
		again()
		again()
	}
}

// After a restore nobody holds a run: what its learner has done since is unknown.
func TestRestore(t *testing.T) {
	c := newClock(t)
	c.do("", Command{Submit: &Submit{spec("a", 1)}})
	c.do("", Command{Announce: &Announce{Node{"n1", "http://a"}}})
	h := c.take("", "l1")
	c.commit("", h, 0, "", hash(1))
	c.Restore(start)
	if run := c.Run(h.Run); run.State != Queued || run.Lease != nil || run.Checkpoint.SHA256 != hash(1) ||
		len(c.Nodes) > 0 {
		t.Errorf("%+v, nodes %v", run, c.Nodes)
	}
	c.held(StaleEpoch, h)
	if _, err := Decode(strings.NewReader(string(encoded(t, c.State)))); err != nil {
		t.Error(err)
	}
}

// A reset run begins anew, with the checkpoint asked for or with none, whoever holds it.
func TestReset(t *testing.T) {
	c := newClock(t)
	to := func(n uint64) *uint64 { return &n }
	c.do("", Command{Submit: &Submit{spec("a", 1)}})
	h := c.take("", "l1")
	c.do(NotFound, Command{Reset: &Reset{Run: "b"}})
	c.do(WrongHash, Command{Reset: &Reset{Run: h.Run, To: to(0)}})
	for i := range 4 {
		previous := ""
		if i > 0 {
			previous = hash(i)
		}
		c.commit("", h, uint64(i), previous, hash(i+1))
	}
	c.do(WrongHash, Command{Reset: &Reset{Run: h.Run, To: to(4)}})
	c.do("", Command{Reset: &Reset{Run: h.Run, To: to(2)}})
	c.commit(NotRunning, h, 4, hash(4), hash(5))
	h = c.take("", "l2")
	run := c.Run(h.Run)
	if run.Checkpoint != nil || *run.Start != (Checkpoint{Iteration: 2, Location: "x"}) || run.Steps != 0 ||
		run.ID != 1 || run.Epoch != 2 {
		t.Errorf("%+v", run)
	}
	c.do("", Command{Reset: &Reset{Run: h.Run, To: to(1)}}) // before it has begun
	h = c.take("", "l2")
	c.commit("", h, 1, "", hash(7))
	c.commit("", h, 2, hash(7), hash(8))
	c.do("", Command{End: &End{Hold: h, State: Done}})
	c.do("", Command{Reset: &Reset{Run: h.Run}})
	if run := c.Run(h.Run); run.State != Queued || run.Checkpoint != nil || run.Start != nil || run.ID != 3 {
		t.Errorf("%+v", run)
	}
}
