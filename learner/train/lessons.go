package train

import "golang.org/x/sync/errgroup"

// lesson is something that a batch teaches the critic for the next batch, and that the policy step from this one does not
// depend on: what the value function learns from its targets, the steps of the process's features. nil is none.
type lesson func() error

// lessons are those of an update. They are learned beside its other stages, which alone leave a quarter or more of the processors
// idle, or in the end if the backend's operations must not overlap. What is learned is the same.
type lessons struct {
	last    bool
	waiting []lesson // until the end
	beside  errgroup.Group
}

// take has a lesson learned.
func (t *lessons) take(l lesson) {
	switch {
	case l == nil:
	case t.last:
		t.waiting = append(t.waiting, l)
	default:
		t.beside.Go(l)
	}
}

// finish returns when all have been learned.
func (t *lessons) finish() error {
	for _, l := range t.waiting {
		if err := l(); err != nil {
			return err
		}
	}
	return t.beside.Wait()
}

// leave waits for what is being learned, which an update that has failed must not leave behind: it uses the update's blocks.
func (t *lessons) leave() { _ = t.beside.Wait() }
