package raftnode

import (
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// clock tells the time by which leases expire. It begins with this machine's and goes on at the pace of its monotonic
// clock, so it does not notice when somebody sets the machine's. A leader that another one's clock was ahead of goes
// on from there: if it waited for its own clock to catch up, no lease would expire meanwhile.
type clock struct {
	machine func() time.Time
	began   time.Time

	mu    sync.Mutex
	ahead time.Duration
}

func newClock(machine func() time.Time) *clock {
	if machine == nil {
		machine = time.Now
	}
	return &clock{machine: machine, began: machine()}
}

// after returns the time, which is not before one that was told already.
func (c *clock) after(told time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.began.Add(c.machine().Sub(c.began) + c.ahead).Round(0).UTC()
	if now.Before(told) {
		c.ahead += told.Sub(now)
		return told
	}
	return now
}

// Time returns the time at a state of this node's.
func (n *Node) Time(s *registry.State) time.Time { return n.clock.after(s.Now) }
