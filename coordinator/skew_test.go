package main_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/failpointtest"
	"github.com/dbqpg/dbqpg/internal/faultstest"
)

// The clocks of three nodes are hours apart, and another leads again and again. A learner that renews its lease keeps
// its run; the run of one that does not is free for others in time, whichever clock it was leased by.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	rng, changes := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(3, 100)
	var within [][]string
	for _, skew := range rng.Perm(3) {
		within = append(within, []string{"env",
			fmt.Sprintf("%s=%dh%dm", failpointtest.SkewVariable, 20*(skew-1), rng.IntN(60))})
	}
	nodes := serveEach(t, within, []string{t.TempDir(), t.TempDir(), t.TempDir()})
	w := startWorkload(t, nodes)
	c := newClient(t, nodes[0].url, nodes[1].url, nodes[2].url)
	if _, err := c.Submit(deadline(t), spec("y", 1, 2)); err != nil {
		t.Fatal(err)
	}
	kept, err := c.Take(deadline(t), registry.Take{Learner: "well", TTL: keptTerm.Seconds()})
	if err != nil {
		t.Fatal(err)
	}
	stop := keepRenewing(t, newClient(t, nodes[0].url, nodes[1].url, nodes[2].url),
		registry.Hold{Run: kept.Name, Epoch: kept.Epoch})
	defer stop()
	longest := time.Duration(0)
	for range changes {
		lost, err := c.Take(deadline(t), registry.Take{Learner: "lost", TTL: registry.MinTTL.Seconds()})
		if err != nil {
			t.Fatal(err)
		}
		w.awaitCommits(rng.IntN(50))
		victim := leader(t, c, nodes)
		victim.Kill()
		w.answered()
		victim.start()
		victim.Expect("msg=ready")
		began := time.Now()
		again, err := c.Take(deadline(t), registry.Take{Learner: "next", TTL: registry.MaxTTL.Seconds()})
		for errors.Is(err, client.NothingNow) {
			if _, err = c.Runs(deadline(t), client.Query{Free: true, Wait: patience}); err == nil {
				again, err = c.Take(deadline(t), registry.Take{Learner: "next", TTL: registry.MaxTTL.Seconds()})
			}
		}
		if err != nil || again.Name != lost.Name || again.Epoch != lost.Epoch+1 {
			t.Fatalf("%+v, %v is taken, where %s is free", again, err, lost.Name)
		}
		longest = max(longest, time.Since(began))
		for _, command := range []registry.Command{{Steer: &registry.Steer{Name: lost.Name, Action: registry.Cancel}},
			{Steer: &registry.Steer{Name: lost.Name, Action: registry.Retry}}} {
			if _, err := c.Do(deadline(t), command); err != nil { // its losses are forgotten
				t.Fatal(err)
			}
		}
	}
	w.report("%d leaders killed, clocks 20 hours apart; the run of a lost learner was free after %v at most, that "+
		"of another never", changes, longest.Round(time.Millisecond))
}

// keptTerm is far longer than a renewal may take, and far shorter than the clocks are apart.
const keptTerm = time.Minute

// keepRenewing renews a lease until it is stopped.
func keepRenewing(t *testing.T, c *client.Client, hold registry.Hold) (stop func()) {
	during, cancel := context.WithCancel(t.Context())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for tick := time.NewTicker(registry.MinTTL); during.Err() == nil; {
			if _, err := c.Renew(during, client.Renewal{Hold: hold, TTL: keptTerm.Seconds()}); err != nil &&
				during.Err() == nil {
				t.Errorf("a lease that is renewed: %v", err)
				return
			}
			select {
			case <-tick.C:
			case <-during.Done():
			}
		}
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}
