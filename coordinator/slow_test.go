package main_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/faultstest"
)

// One of three voters, the leader half of the time, is slow for a while: it stands still for longer than an election
// takes, or for most of the time. Learners go on to commit; a leader that wakes up finds another one in its place,
// and answers nothing from before.
func TestSlowVoters(t *testing.T) {
	t.Parallel()
	rng, slow := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(4, 200)
	nodes := serveThree(t)
	w := startWorkload(t, nodes)
	leaders := 0
	for range slow {
		w.awaitCommits(rng.IntN(50))
		leads := leader(t, w.client, nodes)
		victim := leads
		if rng.IntN(2) == 0 {
			victim = nodes[(slices.Index(nodes, leads)+1+rng.IntN(2))%3]
		} else {
			leaders++
		}
		if rng.IntN(2) == 0 {
			victim.Signal(syscall.SIGSTOP)
			w.answered()
			w.awaitCommits(20)
			victim.Signal(syscall.SIGCONT)
			continue
		}
		for range 10 {
			victim.Signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(20+rng.IntN(180)) * time.Millisecond) // it is slow, not a wait
			victim.Signal(syscall.SIGCONT)
			w.awaitCommits(2)
		}
		w.answered()
	}
	w.report("%d slow voters, %d of them leaders", slow, leaders)
}
