package main_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/dbqpg/dbqpg/learner/runs"
)

// A run killed with SIGKILL at random moments, and resumed each time, ends with the same bits as one never stopped. At
// most one iteration is done again after each kill.
func TestKilledAtRandomMoments(t *testing.T) {
	const kills = 7
	forEach(t, all, func(t *testing.T, e *example) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		for left := kills; left > 0; { // a run that gets through is followed by another
			directory := newDirectory(t)
			arguments := e.arguments(directory, "--resume=auto")
			var settings string
			for ; left > 0 && killSomewhere(t, rng, directory, arguments, 20, func() {}); left-- {
				requireAtMostOneAgain(t, directory)
				if text, err := os.ReadFile(filepath.Join(directory, "config.yaml")); err == nil {
					if settings == "" {
						settings = string(text)
					}
					if string(text) != settings {
						t.Errorf("config.yaml before kill %d from the last:\n%s\nbefore that:\n%s", left, text,
							settings)
					}
				}
			}
			start(t, "learner", arguments...).Succeed()
			e.requireReference(t, directory)
		}
	})
}

// killSomewhere runs the learner and kills it. The moment is one of the first changes to the run's files, when a commit
// is under way, or a random time after it, which may be anywhere in an iteration. Then worse happens, if any. It
// reports whether the kill hit: the run may be through before.
func killSomewhere(t *testing.T, rng *rand.Rand, directory string, arguments []string, within int,
	worse func()) (hit bool) {
	t.Helper()
	changes := watch(t, directory)
	before := committed(t, directory)
	count := rng.IntN(within)
	var delay time.Duration
	if rng.IntN(2) == 0 {
		delay = time.Duration(rng.IntN(300)) * time.Millisecond // about an iteration's length
	}

	learner := start(t, "learner", arguments...)
	for range count {
		select {
		case <-changes:
		case <-learner.Done():
			learner.Succeed()
			return false
		}
	}
	time.Sleep(delay) // a random moment, not a wait
	learner.Signal(syscall.SIGKILL)
	if learner.Wait(); !learner.Killed() {
		learner.Succeed()
		return false
	}
	worse()
	after := committed(t, directory)
	t.Logf("from iteration %d to %d: killed %v after %d changes", before, after, delay, count)

	// What the learner reported as done is never done again.
	reported := regexp.MustCompile(`msg="iteration done" iteration=(\d+)`).FindAllStringSubmatch(learner.Log(), -1)
	for i, match := range reported {
		if want := fmt.Sprint(max(before, 0) + i); match[1] != want {
			t.Errorf("iteration %s was done, want %s", match[1], want)
		}
	}
	if len(reported) > 0 && after < max(before, 0)+len(reported) {
		t.Errorf("%d iterations were reported as done after %d, but the newest checkpoint is of %d", len(reported),
			before, after)
	}
	return true
}

// watch returns a channel that gets an element for each change to the files of a run, until the test's end.
func watch(t *testing.T, directory string) <-chan fsnotify.Event {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	checkpoints := filepath.Join(directory, "checkpoints")
	err = errors.Join(os.MkdirAll(directory, 0o755), watcher.Add(directory))
	if _, missing := os.Stat(checkpoints); missing == nil {
		err = errors.Join(err, watcher.Add(checkpoints))
	}
	if err != nil {
		t.Fatal(err)
	}
	changes, done := make(chan fsnotify.Event), make(chan struct{})
	t.Cleanup(func() {
		close(done)
		watcher.Close()
	})
	go func() {
		for change := range watcher.Events {
			if change.Name == checkpoints && change.Has(fsnotify.Create) {
				_ = watcher.Add(checkpoints) // it may be gone with the test already
			}
			select {
			case changes <- change:
			case <-done:
			}
		}
	}()
	return changes
}

// committed returns the number of the run's last committed iteration, -1 before its first checkpoint.
func committed(t *testing.T, directory string) int {
	t.Helper()
	iteration, ok, err := runs.Newest(filepath.Join(directory, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return -1
	}
	return int(iteration)
}

// requireAtMostOneAgain fails unless what a killed run has written beyond its newest checkpoint is of one iteration.
func requireAtMostOneAgain(t *testing.T, directory string) {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(directory, "progress.csv"))
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(table), "\n")
	number, _, whole := strings.Cut(lines[max(len(lines)-2, 0)], ",") // of the last whole line
	last, err := strconv.Atoi(number)
	if err != nil || !whole {
		return // the header
	}
	if done := committed(t, directory); last+1 < done || last > done {
		t.Errorf("the last row is of iteration %d, but the newest checkpoint is %d", last, done)
	}
}

// Ctrl-C, or SIGTERM, stops a run, which says how to go on; going on ends with the same bits.
func TestInterrupted(t *testing.T) {
	forEachExample(t, func(t *testing.T, e *example) {
		for i, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			directory := newDirectory(t)
			learner := start(t, "learner", e.arguments(directory, "--actors", "2")...)
			if i == 0 {
				learner.url() // in the batch that initialises the normaliser, or before
			} else {
				learner.iterations(2)
			}
			learner.Signal(s)
			if status := learner.Wait(); status != 130 {
				t.Errorf("after %v the learner ended with status %d, want 130", s, status)
			}
			command := learner.Expect(`msg=stopped .*"go on with"="` +
				regexp.QuoteMeta(filepath.Join(programs, "learner")) + ` ([^"]*)"`)[1]
			start(t, "learner", strings.Fields(command)...).Succeed()
			e.requireReference(t, directory)
		}
	})
}
