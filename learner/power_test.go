package main_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/internal/faultstest"
)

// A run whose disk loses power at random moments, and that is resumed each time, ends with the same bits as one never
// stopped. At most one iteration is done again after each failure, and none that was reported as done.
func TestLearnersPowerFailures(t *testing.T) {
	t.Parallel()
	rng, failures := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(3, 200)
	e, runs := examples[1], 0
	for left := failures; left > 0; runs++ { // a run that gets through is followed by another
		disk := faultstest.NewDisk(t)
		directory := filepath.Join(disk.Path, "run")
		arguments := e.arguments(directory, "--resume=auto")
		for ; left > 0 && killSomewhere(t, rng, directory, arguments, 60, disk.Cut); left-- {
			requireAtMostOneAgain(t, directory)
		}
		start(t, "learner", arguments...).Succeed()
		e.requireReference(t, directory)
	}
	faultstest.Report(t, "%d power failures of a learner; %d runs end with the bits of an undisturbed one", failures,
		runs)
}

// The power fails for all at once, a worker, the coordinator and the store of checkpoints, at any point of the worker's
// work. The coordinator has each commit that it answered, the store has that commit's checkpoint, and the run goes on
// to the same bits.
func TestWorkersPowerFailures(t *testing.T) {
	t.Parallel()
	rng, repetitions := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(1, 20)
	count := 1 // of points
	if faultstest.Long() {
		count = len(points)
	}
	e := examples[1]
	records, checkpoints := faultstest.NewDisk(t), faultstest.NewDisk(t)
	c := newCluster(t)
	c.coordinator.Kill()
	c.flags[2], c.checkpoints = filepath.Join(records.Path, "data"), filepath.Join(checkpoints.Path, "checkpoints")
	c.startCoordinator()
	for i := range repetitions {
		for _, p := range rng.Perm(len(points))[:count] {
			point := points[p]
			fail := fmt.Sprintf("kill@%s:%d", point.name, 1+rng.IntN(point.times(e)))
			name, first := c.killedAt(e, fmt.Sprintf("dark-%s-%d", point.name, i), fail)
			c.coordinator.Kill()
			records.Cut()
			checkpoints.Cut()
			c.startCoordinator()
			second := c.worker("")
			first.requireNotAgain(second.resumed())
			c.requireReference(e, c.done(name), 2)
			second.Signal(syscall.SIGTERM)
			second.Succeed()
		}
	}
	faultstest.Report(t, "%d power failures of a worker, the coordinator and the store at %d points; the same "+
		"bits, at most one iteration again", repetitions*count, count)
}

// killedAt submits a run, and returns it with a worker that was killed at a point of it. A worker that lost its lease
// before, as on a machine that stands still, does not count.
func (c *cluster) killedAt(e *example, experiment, fail string) (run string, killed *process) {
	c.t.Helper()
	for try := range 5 {
		name := fmt.Sprint(experiment, "-", try)
		run, killed = c.submit(e, name), c.worker(fail, "--lease-term", "2s")
		if killed.endsBefore(gaveUp) {
			return run, killed
		}
		killed.Kill()
		c.command("cancel", name)
	}
	c.t.Fatalf("no worker came to %s before it lost its lease", fail)
	return "", nil
}
