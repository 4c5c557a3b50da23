package train

import (
	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// deferred is a part of an update that the policy step does not depend on: the value function's passes over the batch,
// the steps of the process's features. nil is none. It returns a function that fills in its columns, nil for none.
type deferred func() (columns func(*runs.Row), err error)

// deferral holds an update's deferred parts. They run beside its other stages, which leave a quarter or more of the
// processors idle, and beside the sampling of the next batch; or in wait, if the backend's operations must not overlap.
// The result is the same.
type deferral struct {
	last   bool
	parts  []*part
	beside errgroup.Group
}

// part is a deferred part with its columns once it is done.
type part struct {
	do      deferred
	columns func(*runs.Row)
}

// run does the part, and returns the failure of a device as its error.
func (p *part) run() (err error) {
	defer compute.Catch(&err)
	p.columns, err = p.do()
	return err
}

// add starts d, or keeps it for wait. The nil deferral drops it.
func (t *deferral) add(d deferred) {
	if t == nil || d == nil {
		return
	}
	p := &part{do: d}
	t.parts = append(t.parts, p)
	if !t.last {
		t.beside.Go(p.run)
	}
}

// wait returns when all parts are done, and fills in their columns.
func (t *deferral) wait(row *runs.Row) error {
	if t.last {
		for _, p := range t.parts {
			if err := p.run(); err != nil {
				return err
			}
		}
	}
	if err := t.beside.Wait(); err != nil {
		return err
	}
	for _, p := range t.parts {
		if p.columns != nil {
			p.columns(row)
		}
	}
	return nil
}

// abandon waits for the parts that have started, which use the update's blocks, and drops the others.
func (t *deferral) abandon() {
	if t != nil {
		_ = t.beside.Wait()
	}
}
