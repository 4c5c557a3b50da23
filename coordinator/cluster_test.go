package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/faultstest"
)

func spec(name string, seeds ...uint64) registry.Spec {
	return registry.Spec{
		Name: name, Tasks: []string{"Swimmer-v2"}, Algorithms: []string{"npg"}, Estimators: []string{"uapg"},
		Seeds: seeds,
	}
}

// leader returns the node that leads, as the others say.
func leader(t testing.TB, c *client.Client, nodes []*node) *node {
	t.Helper()
	known, err := c.Nodes(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range known {
		if k.Leader {
			return nodes[slices.IndexFunc(nodes, func(n *node) bool { return n.id == k.ID })]
		}
	}
	t.Fatalf("nobody leads: %+v", known)
	return nil
}

// workload is learners that commit to a cluster, one checkpoint after the other.
type workload struct {
	t         *testing.T
	client    *client.Client // of somebody else
	committed []registry.Checkpoint
	progress  chan struct{}
	end       func()
	outages   []time.Duration
}

// startWorkload starts three learners, each with a client of its own.
func startWorkload(t *testing.T, nodes []*node) *workload {
	t.Helper()
	const learners = 3
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.url)
	}
	w := &workload{t: t, client: newClient(t, urls...), committed: make([]registry.Checkpoint, learners),
		progress: make(chan struct{})}
	if n, err := w.client.Submit(deadline(t), spec("x", 1, 2, 3)); n != learners || err != nil {
		t.Fatal(n, err)
	}
	during, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for i := range learners {
		c, learner := newClient(t, urls[i%len(urls)]), fmt.Sprint("l", i)
		run, err := c.Take(deadline(t), registry.Take{Learner: learner, TTL: 3600}) // before anybody else takes one
		if err != nil {
			t.Fatal(err)
		}
		working.Go(func() { w.committed[i] = commitOn(t, during, c, run, learner, w.progress) })
	}
	w.end = sync.OnceFunc(func() {
		cancel()
		working.Wait()
	})
	t.Cleanup(w.end)
	return w
}

// awaitCommits waits for some commits.
func (w *workload) awaitCommits(n int) {
	w.t.Helper()
	for range n {
		select {
		case <-w.progress:
		case <-time.After(patience):
			w.t.Fatal("nothing is committed")
		}
	}
}

// answered notes how long it takes until somebody is answered.
func (w *workload) answered() {
	w.t.Helper()
	began := time.Now()
	write := registry.Command{Steer: &registry.Steer{Name: "x", Action: registry.Prioritize}}
	if _, err := w.client.Do(deadline(w.t), write); err != nil {
		w.t.Fatal(err)
	}
	w.outages = append(w.outages, time.Since(began))
}

// report ends the learners' work and fails if a commit that was answered is not there. It says what was done.
func (w *workload) report(what string, args ...any) {
	w.t.Helper()
	w.end()
	runs, err := w.client.Runs(deadline(w.t), client.Query{Experiment: "x"})
	if err != nil {
		w.t.Fatal(err)
	}
	total := uint64(0)
	for _, last := range w.committed {
		i := slices.IndexFunc(runs.Runs, func(r registry.Run) bool {
			return r.Checkpoint != nil &&
				*r.Checkpoint == last
		})
		if i < 0 {
			w.t.Errorf("commit %+v is lost: %+v", last, runs.Runs)
			continue
		}
		total += last.Iteration
	}
	slices.Sort(w.outages)
	n, at := len(w.outages), func(i int) time.Duration { return w.outages[i].Round(time.Millisecond) }
	faultstest.Report(w.t, "%s, %d commits, none lost; answered again after %v (median), %v (90 %%), %v (99 %%), %v "+
		"(longest)",
		fmt.Sprintf(what, args...), total, at(n/2), at(n*9/10), at(n*99/100), at(n-1))
}

// Three processes, of which one after the other is killed, mostly the leader, while learners commit: each commit that
// was answered is there in the end, and each was made once.
func TestKilledLeaders(t *testing.T) {
	t.Parallel()
	rng, kills := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(5, 300)
	nodes := serveThree(t)
	w := startWorkload(t, nodes)
	for kill := range kills {
		w.awaitCommits(rng.IntN(100))
		victim := nodes[rng.IntN(3)]
		if kill == 0 || rng.IntN(4) > 0 {
			victim = leader(t, w.client, nodes)
		}
		victim.Kill()
		w.answered()
		victim.start()
	}
	w.report("%d coordinators killed", kills)
}

// commitOn commits one checkpoint of a run that a learner has taken after the other until ctx is done. It returns the
// last.
func commitOn(t *testing.T, ctx context.Context, c *client.Client, run *registry.Run, learner string,
	progress chan<- struct{}) registry.Checkpoint {
	last, previous := registry.Checkpoint{}, ""
	for ctx.Err() == nil {
		next := registry.Checkpoint{Iteration: last.Iteration + 1, SHA256: fmt.Sprintf("%064x", last.Iteration+1),
			Location: learner}
		_, err := c.Commit(deadline(t), registry.Commit{Hold: registry.Hold{Run: run.Name, Epoch: run.Epoch},
			Previous: previous, Checkpoint: next})
		if err != nil {
			t.Errorf("%s: commit %d: %v", learner, next.Iteration, err)
			break
		}
		last, previous = next, next.SHA256
		select {
		case progress <- struct{}{}:
		case <-ctx.Done():
		default: // a kill is under way
		}
	}
	return last
}

// A lost node is replaced by a new one, a fourth and fifth join, one leaves; what was there stays there.
func TestJoinLeaveReplace(t *testing.T) {
	t.Parallel()
	nodes := serveThree(t)
	c := newClient(t, nodes[0].url)
	if _, err := c.Submit(deadline(t), spec("x", 1, 2)); err != nil {
		t.Fatal(err)
	}
	lost := nodes[1]
	lost.Kill()
	addresses := holdAddresses(t, 4)
	fourth := serve(t, "n4", t.TempDir(), addresses[0], addresses[1], "--join", nodes[0].url)
	fourth.Expect("msg=ready")
	if out, complaint, status := run(t, nodes[0].url, "", "leave", "n2"); status != 0 {
		t.Fatal(out, complaint)
	}
	fifth := serve(t, "n5", t.TempDir(), addresses[2], addresses[3], "--join", fourth.url)
	fifth.Expect("msg=ready")
	if _, err := c.Submit(deadline(t), spec("y", 1)); err != nil {
		t.Fatal(err)
	}
	nodes[0].Kill() // of n1, n3, n4, n5 three are left; the client knew n1 only, and has learned of the others
	known, err := c.Nodes(deadline(t))
	if err != nil || len(known) != 4 {
		t.Fatalf("%+v, %v", known, err)
	}
	all := []*node{nodes[0], nodes[2], fourth, fifth}
	if err := c.Leave(deadline(t), "n1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Leave(deadline(t), "n1"); !errors.Is(err, client.NotFound) {
		t.Errorf("a node that has left leaves: %v", err)
	}
	first := leader(t, c, all)
	if status := first.stop(); status != 0 {
		t.Errorf("%s ended with status %d:\n%s", first.id, status, first.Log())
	}
	first.start() // where it was to join is gone, but it has joined long ago
	first.Expect("msg=ready")
	second := leader(t, c, all)
	if err := c.Leave(deadline(t), second.id); err != nil {
		t.Fatal(err)
	}
	if status := second.Wait(); status != 1 {
		t.Errorf("%s ended with status %d", second.id, status)
	}
	second.Expect("was removed from the cluster")
	experiments, err := c.Experiments(deadline(t))
	if err != nil || len(experiments) != 2 {
		t.Errorf("%+v, %v", experiments, err)
	}
}

// A backup restored to a new node, under a new name, has all that was there, and so has a node that joins that one.
func TestRestore(t *testing.T) {
	t.Parallel()
	first := serveOne(t)
	if out, complaint, status := run(t, first.url, sweepFile, "submit", "-"); status != 0 {
		t.Fatal(out, complaint)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if out, complaint, status := run(t, first.url, "", "backup", backup); status != 0 {
		t.Fatal(out, complaint)
	}
	written, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if out, complaint, status := run(t, first.url, "", "backup", "-"); status != 0 || out != string(written) {
		t.Fatalf("backup -: %d %s: %d bytes, not %d", status, complaint, len(out), len(written))
	}
	first.Kill()
	addresses := holdAddresses(t, 4)
	directory := t.TempDir()
	second := serve(t, "m1", directory, addresses[0], addresses[1], "--restore", backup)
	second.Expect("msg=ready")
	second.arguments = second.arguments[:len(second.arguments)-2] // it goes on with its records
	third := serve(t, "m2", t.TempDir(), addresses[2], addresses[3], "--join", second.url)
	third.Expect("msg=ready")
	if _, err := newClient(t, third.url).Submit(deadline(t), spec("more", 1)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{second, third} { // so that each leads for a while
		n.stop()
		n.start()
		n.Expect("msg=ready")
		experiments, err := newClient(t, second.url, third.url).Experiments(deadline(t))
		if err != nil || len(experiments) != 2 || experiments[0].Runs[registry.Queued] != 2 {
			t.Errorf("%+v, %v", experiments, err)
		}
	}
	fourth := holdAddresses(t, 2) // a node that knows m1 as a peer, as after all directories were lost, enters too
	entering := serve(t, "m3", t.TempDir(), fourth[0], fourth[1], "--peers",
		fmt.Sprintf("m1=%s,m2=%s,m3=%s", addresses[1], addresses[3], fourth[1]))
	entering.Expect("msg=ready")
	second.Kill()
	if out, complaint, status := run(t, "", "", "serve", "--node-id", "m1", "--data-dir", directory, "--http",
		addresses[0], "--raft", addresses[1], "--restore", backup); status != 1 ||
		!strings.Contains(complaint, "already holds records") {
		t.Error(out, complaint)
	}
}
