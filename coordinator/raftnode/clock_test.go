package raftnode

import (
	"testing"
	"time"
)

// A clock that is behind the last leader's goes on from there at the right pace; no time comes twice.
func TestClock(t *testing.T) {
	machine := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := machine
	c := newClock(func() time.Time { return machine })
	for _, step := range []struct{ passed, told, want time.Duration }{
		{0, -time.Hour, 0},
		{time.Second, 0, time.Second},
		{time.Second, time.Hour, time.Hour}, // the last leader was ahead
		{time.Second, time.Hour, time.Hour + time.Second},
		{time.Minute, time.Hour + time.Second, time.Hour + time.Minute + time.Second},
		{time.Second, 2 * time.Hour, 2 * time.Hour}, // and the one in between, too
		{time.Second, 0, 2*time.Hour + time.Second},
	} {
		machine = machine.Add(step.passed)
		if got := c.after(at.Add(step.told)); !got.Equal(at.Add(step.want)) {
			t.Errorf("%v later, %v having been told, it is %v, want %v", step.passed, step.told, got.Sub(at), step.want)
		}
	}
}
