package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/faultstest"
)

// directory returns the node's data directory.
func (n *node) directory() string {
	return n.arguments[slices.Index(n.arguments, "--data-dir")+1]
}

// lose ends a node and takes its directory away.
func (n *node) lose() {
	n.t.Helper()
	n.Kill()
	if err := os.RemoveAll(n.directory()); err != nil {
		n.t.Fatal(err)
	}
}

// One node after the other loses its directory, mostly the leader, and is started again by the same command line,
// while learners commit: nothing is lost, and each counts again.
func TestLostDirectory(t *testing.T) {
	t.Parallel()
	rng, losses := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(4, 100)
	nodes := serveThree(t)
	w := startWorkload(t, nodes)
	for range losses {
		w.awaitCommits(rng.IntN(50))
		victim := nodes[rng.IntN(3)]
		if rng.IntN(4) > 0 {
			victim = leader(t, w.client, nodes)
		}
		victim.lose()
		w.answered()
		victim.start()
		victim.Expect("entering the existing cluster")
		victim.Expect("msg=ready")
		other := nodes[(slices.Index(nodes, victim)+1)%3]
		other.Kill() // so the one that has come back is needed for a majority
		w.answered()
		other.start()
		other.Expect("msg=ready")
	}
	known, err := w.client.Nodes(deadline(t))
	if err != nil || len(known) != 3 {
		t.Errorf("%+v, %v", known, err)
	}
	w.report("%d directories lost", losses)
}

// With two of three directories lost, nothing is begun anew, and the third keeps what it has; once they are back, all
// goes on.
func TestMostDirectoriesLost(t *testing.T) {
	t.Parallel()
	nodes := serveThree(t)
	c := newClient(t, nodes[0].url, nodes[1].url, nodes[2].url)
	if _, err := c.Submit(deadline(t), spec("x", 1, 2)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes[1:] {
		n.Kill()
		if err := os.Rename(n.directory(), n.directory()+".aside"); err != nil {
			t.Fatal(err)
		}
		n.start()
	}
	for _, n := range nodes[1:] {
		n.Expect(`the directories of most nodes are empty \(n[23], n[23]\), and n1 alone cannot know .* restore a ` +
			`backup`)
	}
	nodes[0].Kill() // whether it is there or not
	nodes[1].Expect("waiting for n1: a new cluster forms only once all of --peers say that they are empty")
	for _, n := range nodes[1:] {
		n.lose()
		if err := os.Rename(n.directory()+".aside", n.directory()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.start()
	}
	for _, n := range nodes {
		n.Expect("msg=ready")
	}
	experiments, err := c.Experiments(deadline(t))
	if err != nil || len(experiments) != 1 || experiments[0].Runs[registry.Queued] != 2 {
		t.Errorf("%+v, %v", experiments, err)
	}
}

// A first start waits for all nodes. A name that is another node's is refused, wherever it is said.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 8)
	peers := fmt.Sprintf("n1=%s,n2=%s,n3=%s", addresses[1], addresses[3], addresses[5])
	var nodes []*node
	begin := func(i int) {
		nodes = append(nodes, serve(t, fmt.Sprint("n", i+1), t.TempDir(), addresses[2*i], addresses[2*i+1], "--peers",
			peers))
	}
	begin(0)
	begin(1)
	nodes[0].Expect("waiting for n3: a new cluster forms only once all of --peers say that they are empty")
	nodes[1].Kill() // which changes nothing
	nodes[1].start()
	begin(2)
	for _, n := range nodes {
		n.Expect("msg=ready")
	}
	stranger := serve(t, "n2", t.TempDir(), addresses[6], addresses[7], "--join", nodes[0].url)
	if status := stranger.Wait(); status != 1 {
		t.Errorf("status %d", status)
	}
	stranger.Expect(`there is a node n2, at .*: start this one under another name or, if that one is lost, ` +
		`run \\?"coordinator leave n2`)
	nodes[1].Kill()
	if out, complaint, status := run(t, nodes[0].url, "", "leave", "n2"); status != 0 {
		t.Fatal(out, complaint)
	}
	stranger.start() // now the name is free
	stranger.Expect("msg=ready")
	known, err := newClient(t, nodes[0].url).Nodes(deadline(t))
	if err != nil || len(known) != 3 {
		t.Errorf("%+v, %v", known, err)
	}
}

// records returns the file of the node's records.
func (n *node) records() string { return filepath.Join(n.directory(), "records") }

// A node whose records are gone, or damaged, takes no part until the others have brought it up to date, and they go on
// meanwhile. If all are gone, nothing is begun anew.
func TestLostRecords(t *testing.T) {
	t.Parallel()
	nodes := serveThree(t)
	w := startWorkload(t, nodes)
	for i, lose := range []func(file string) error{
		os.Remove,
		func(file string) error { return os.Truncate(file, 0) },
		func(file string) error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			data[1500] ^= 1
			return os.WriteFile(file, data, 0o600)
		},
	} {
		w.awaitCommits(20)
		victim := nodes[i]
		victim.Kill()
		if err := lose(victim.records()); err != nil {
			t.Fatal(err)
		}
		victim.start()
		if i == 2 {
			if status := victim.Wait(); status != 1 || !strings.Contains(victim.Log(), "are damaged (") {
				t.Errorf("status %d: %s", status, victim.Log())
			}
			w.awaitCommits(20)
			if err := os.RemoveAll(victim.directory()); err != nil {
				t.Fatal(err)
			}
			victim.start()
		}
		victim.Expect("entering the existing cluster")
		victim.Expect("msg=ready")
		other := nodes[(i+1)%3]
		other.Kill() // so the one that has come back is needed for a majority
		w.answered()
		other.start()
		other.Expect("msg=ready")
	}
	w.report("2 nodes lost their records, one's were damaged")
	for _, n := range nodes {
		n.Kill()
		if err := os.Remove(n.records()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.start()
	}
	for _, n := range nodes {
		n.Expect("no node has any records, and those of n1, n2, n3 are gone")
	}
}

// A node that is alone, and whose records are gone, says so and ends.
func TestLoneNodeLosesRecords(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 2)
	n := serve(t, "n1", t.TempDir(), addresses[0], addresses[1])
	n.Expect("msg=ready")
	n.Kill()
	if err := os.Remove(n.records()); err != nil {
		t.Fatal(err)
	}
	n.start()
	if status := n.Wait(); status != 1 || !strings.Contains(n.Log(), "the records of n1 in "+n.directory()+" are gone") {
		t.Errorf("status %d: %s", status, n.Log())
	}
}
