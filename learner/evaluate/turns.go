package evaluate

import (
	"math"
	"sync"
)

// turns gives episodes to workers, in order, as long as these are certain to have at most so many steps together.
type turns struct {
	mu      sync.Mutex
	ended   *sync.Cond
	count   int // episodes
	begun   int
	playing int
	left    int // steps: an episode counts with its greatest length until it has ended
	longest int // steps of an episode
	failed  bool
}

func newTurns(e *Episodes) *turns {
	t := &turns{count: e.Count, left: e.MaxSteps, longest: e.TimeLimit}
	if e.MaxSteps == 0 {
		t.left, t.longest = math.MaxInt, 0
	}
	t.ended = sync.NewCond(&t.mu)
	return t
}

// next returns the next episode, false if there is none. It waits for the end of episodes if their lengths decide that,
// so the result does not depend on the number of workers.
func (t *turns) next() (index int, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := func() bool { return t.begun == t.count || t.failed }
	for !over() && t.left < t.longest && t.playing > 0 {
		t.ended.Wait()
	}
	if over() || t.left < t.longest {
		return 0, false
	}
	t.begun++
	t.playing++
	t.left -= t.longest
	return t.begun - 1, true
}

// end notes the end of an episode; after an error no more are begun.
func (t *turns) end(length int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.playing--
	t.failed = t.failed || err != nil
	if t.longest > 0 {
		t.left += t.longest - length
	}
	t.ended.Broadcast()
}
