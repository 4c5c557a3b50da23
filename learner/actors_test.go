package main_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The policy after N iterations is the same bits for one local actor (the reference, on one core besides) and for two.
func TestLocalActors(t *testing.T) {
	forEach(t, all, func(t *testing.T, e *example) {
		directory := newDirectory(t)
		start(t, "learner", e.arguments(directory, "--actors", "2")...).Succeed()
		e.requireReference(t, directory)
	})
}

// It is the same bits for one actor process that finds the run on the learner's own server.
func TestRemoteActor(t *testing.T) {
	forEachExample(t, func(t *testing.T, e *example) {
		directory := newDirectory(t)
		learner := start(t, "learner", e.arguments(directory, "--actors", "0")...)
		start(t, "actor", "--nats", learner.url(), "--slots", "1")
		learner.Succeed()
		e.requireReference(t, directory)
	})
}

// An actor with --once ends, with success, when the run has ended; others wait for the next one.
func TestOnce(t *testing.T) {
	e := all[0]
	learner := start(t, "learner", e.arguments(newDirectory(t), "--actors", "0")...)
	once := start(t, "actor", "--nats", learner.url(), "--slots", "1", "--once")
	start(t, "actor", "--nats", learner.url(), "--slots", "1").Expect("msg=joined")
	learner.Succeed()
	once.Succeed()
}

// It is the same bits for three actor processes, of which one is killed in the middle with SIGKILL.
func TestKilledActor(t *testing.T) {
	forEach(t, all, func(t *testing.T, e *example) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		_, url := startServer(t, "0")
		var actors []*process
		for range 3 {
			actors = append(actors, start(t, "actor", "--nats", url, "--run", e.run, "--slots", "1"))
		}
		for _, actor := range actors {
			actor.Expect("msg=joined")
		}
		learner := learnUntilStopped(t, e, url)
		learner.iterations(1 + rng.IntN(3))
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // a random moment of an iteration, not a wait
		actors[rng.IntN(3)].Kill()
		learner.next()
		learner.stop()
	})
}

// It is the same bits for a local actor beside others that come and go. The learner is held while one comes, so that it
// does not end before.
func TestActorsComeAndGo(t *testing.T) {
	forEachExample(t, func(t *testing.T, e *example) {
		_, url := startServer(t, "0")
		directory := newDirectory(t)
		learner := start(t, "learner", e.externally(directory, url, "--actors", "1")...)
		for iteration := 1; iteration < 4; iteration++ {
			learner.iterations(iteration)
			learner.Signal(syscall.SIGSTOP)
			actor := start(t, "actor", "--nats", url, "--run", e.run, "--slots", "2")
			actor.Expect("msg=joined")
			learner.Signal(syscall.SIGCONT)
			learner.iterations(iteration + 1)
			actor.Signal(syscall.SIGTERM)
			actor.Expect("msg=left")
			actor.Succeed()
		}
		learner.Succeed()
		e.requireReference(t, directory)
	})
}

// Three actors that were told of no run play for two learners on one server, whose policies become the same bits as
// ever, although one of the actors is killed, and so is a third learner, which wanted episodes without end.
func TestActorsFindLearners(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	_, url := startServer(t, "0")
	var actors []*process
	for range 3 {
		actors = append(actors, start(t, "actor", "--nats", url, "--slots", "1"))
	}
	vanishing := start(t, "learner", examples[0].externally(newDirectory(t), url, "--actors", "0", "--seed", "99",
		"--iterations", "1000000")...)
	var directories []string
	var learners []*process
	for _, e := range examples {
		directory := newDirectory(t)
		directories = append(directories, directory)
		learners = append(learners, start(t, "learner", e.externally(directory, url, "--actors", "0")...))
	}
	for _, learner := range append(learners, vanishing) {
		learner.iterations(1)
	}
	if strings.Contains(learners[0].Log(), fmt.Sprintf("iteration=%d ", examples[0].iterations-1)) {
		t.Fatal("the longer run is through before anybody is killed: the test shows nothing")
	}
	vanishing.Kill()
	actors[rng.IntN(3)].Kill()
	for i, learner := range learners {
		learner.Succeed()
		examples[i].requireReference(t, directories[i])
	}
}
