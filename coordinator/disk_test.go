package main_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

// small is a shell that runs a program whose files may have 200 blocks of 512 bytes: no room for many commands.
var small = []string{"sh", "-c", `ulimit -f 200; exec "$0" "$@"`}

// submitUntilFull submits experiments until a request fails, and returns how many were answered.
func submitUntilFull(t *testing.T, c *client.Client) (answered int) {
	t.Helper()
	for ; answered < 10_000; answered++ {
		s := spec(fmt.Sprint("e", answered))
		for seed := range uint64(100) {
			s.Seeds = append(s.Seeds, seed)
		}
		short, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := c.Submit(short, s)
		cancel()
		if err != nil {
			t.Logf("after %d experiments: %v", answered, err)
			return answered
		}
	}
	t.Fatal("the disk is never full: the test shows nothing")
	return 0
}

// requireExperiments fails unless the first n are there.
func requireExperiments(t *testing.T, c *client.Client, n int) {
	t.Helper()
	experiments, err := c.Experiments(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range experiments {
		names[e.Spec.Name] = true
	}
	for i := range n {
		if !names[fmt.Sprint("e", i)] {
			t.Errorf("experiment e%d was answered, and is lost", i)
		}
	}
}

// A node whose disk is full refuses what it cannot keep. What it answered it still has once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 2)
	n := serveWithin(t, small, "n1", t.TempDir(), addresses[0], addresses[1])
	n.Expect("msg=ready")
	answered := submitUntilFull(t, newClient(t, n.url))
	if answered == 0 {
		t.Fatal("the disk is full at once: the test shows nothing")
	}
	n.stop()
	n.within = nil
	n.start()
	n.Expect("msg=ready")
	c := newClient(t, n.url)
	requireExperiments(t, c, answered)
	if _, err := c.Submit(deadline(t), spec("more", 1)); err != nil {
		t.Error(err)
	}
}

// Of three nodes, the disk of the one that leads is full: another one leads.
func TestLeadersDiskFull(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 6)
	first := serveWithin(t, small, "n1", t.TempDir(), addresses[0], addresses[1])
	first.Expect("msg=ready")
	nodes := []*node{first}
	for i := 1; i < 3; i++ {
		n := serve(t, fmt.Sprint("n", i+1), t.TempDir(), addresses[2*i], addresses[2*i+1], "--join", first.url)
		n.Expect("msg=ready")
		nodes = append(nodes, n)
	}
	c := newClient(t, first.url, nodes[1].url, nodes[2].url)
	answered := 0
	for ; answered < 250; answered++ {
		s := spec(fmt.Sprint("e", answered))
		for seed := range uint64(100) {
			s.Seeds = append(s.Seeds, seed)
		}
		if _, err := c.Submit(deadline(t), s); err != nil {
			t.Fatalf("after %d: %v", answered, err)
		}
	}
	requireExperiments(t, c, answered)
	if leader(t, c, nodes) == first {
		t.Errorf("the node whose disk is full leads")
	}
}

// A node whose data directory cannot be written says so and ends.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	addresses := holdAddresses(t, 2)
	n := serve(t, "n1", directory, addresses[0], addresses[1])
	n.Expect("msg=ready")
	n.stop()
	if os.Geteuid() == 0 { // who may write everywhere else
		n.within = []string{"unshare", "-m", "env", "DIRECTORY=" + directory, "sh", "-c",
			`mount --bind -o ro "$DIRECTORY" "$DIRECTORY" && mount -o remount,ro,bind "$DIRECTORY" && exec "$0" "$@"`}
	} else if err := os.Chmod(directory+"/records", 0o400); err != nil {
		t.Fatal(err)
	}
	n.start()
	if status := n.Wait(); status != 1 || !strings.Contains(n.Log(), "coordinator: open "+directory) {
		t.Errorf("status %d: %s", status, n.Log())
	}
}
