package train

import (
	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// deferred is a part of an update that the policy step does not depend on: the value function's passes over the batch,
// the steps of the process's features. nil is none.
type deferred func() error

// run calls d, and returns the failure of a device as its error.
func (d deferred) run() (err error) {
	defer compute.Catch(&err)
	if d == nil {
		return nil
	}
	return d()
}

// deferral holds an update's deferred parts. They run beside its other stages, which leave a quarter or more of the
// processors idle, and beside the sampling of the next batch; or in wait, if the backend's operations must not overlap.
// The result is the same.
type deferral struct {
	last    bool
	waiting []deferred // for wait
	beside  errgroup.Group
}

// add starts d, or keeps it for wait.
func (t *deferral) add(d deferred) {
	switch {
	case d == nil:
	case t.last:
		t.waiting = append(t.waiting, d)
	default:
		t.beside.Go(d.run)
	}
}

// wait returns when all parts are done.
func (t *deferral) wait() error {
	for _, d := range t.waiting {
		if err := d.run(); err != nil {
			return err
		}
	}
	return t.beside.Wait()
}

// abandon waits for the parts that have started, which use the update's blocks, and drops the others.
func (t *deferral) abandon() { _ = t.beside.Wait() }
