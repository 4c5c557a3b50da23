package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/faultstest"
)

// island is a network namespace that is connected to the others, and to this process, by a bridge.
type island struct {
	name    string // of the namespace
	cable   string // the bridge's end of it
	address string
}

// newIslands makes network namespaces, until the test's end; where that is not allowed, the test is skipped.
func newIslands(t *testing.T, count int) []island {
	t.Helper()
	if out, err := ip("netns", "list"); err != nil || os.Geteuid() != 0 {
		t.Skipf("network namespaces need root and the program ip: %v %s", err, out)
	}
	unique := os.Getpid() % 100000
	bridge, subnet := fmt.Sprintf("dq%d", unique), fmt.Sprintf("198.18.%d.", unique%250)
	try := func(line string, args ...any) {
		t.Helper()
		if out, err := ip(strings.Fields(fmt.Sprintf(line, args...))...); err != nil {
			t.Skipf("this machine allows no network namespaces: ip "+line+": %v %s", append(args, err, out)...)
		}
	}
	t.Cleanup(func() { ip("link", "del", bridge) })
	try("link add %s type bridge", bridge)
	try("addr add %s254/24 dev %s", subnet, bridge)
	try("link set %s up", bridge)
	var islands []island
	for n := range count {
		i := island{fmt.Sprintf("dbqpg-%d-%d", unique, n+1), fmt.Sprintf("%sh%d", bridge, n+1), fmt.Sprint(subnet, n+1)}
		inner := fmt.Sprintf("%sp%d", bridge, n+1)
		t.Cleanup(func() { ip("link", "del", i.cable); ip("netns", "del", i.name) })
		try("netns add %s", i.name)
		try("link add %s type veth peer name %s", i.cable, inner)
		try("link set %s netns %s", inner, i.name)
		try("link set %s master %s up", i.cable, bridge)
		try("-n %s addr add %s/24 dev %s", i.name, i.address, inner)
		try("-n %s link set %s up", i.name, inner)
		try("-n %s link set lo up", i.name)
		islands = append(islands, i)
	}
	return islands
}

func ip(arguments ...string) (string, error) {
	out, err := exec.Command("ip", arguments...).CombinedOutput()
	return string(out), err
}

// Three nodes in network namespaces of their own: again and again one of them is cut off from everybody, or from one
// other node alone, mostly the leader, while learners commit. No commit is lost, and the cluster goes on without
// whoever is missing: the next one that is cut off leaves a majority only if the one before is back.
func TestPartitions(t *testing.T) {
	islands := newIslands(t, 3)
	rng, partitions := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(3, 60)
	var peers []string
	for i, at := range islands {
		peers = append(peers, fmt.Sprintf("n%d=%s:7071", i+1, at.address))
	}
	var nodes []*node
	for i, at := range islands {
		nodes = append(nodes, serveWithin(t, []string{"ip", "netns", "exec", at.name}, fmt.Sprint("n", i+1),
			t.TempDir(),
			at.address+":7070", at.address+":7071", "--peers", strings.Join(peers, ","), "--insecure-listen"))
	}
	for _, n := range nodes {
		n.Expect("msg=ready")
	}
	w := startWorkload(t, nodes)
	must := func(line string, args ...any) {
		t.Helper()
		if out, err := ip(strings.Fields(fmt.Sprintf(line, args...))...); err != nil {
			t.Fatalf("ip "+line+": %v %s", append(args, err, out)...)
		}
	}
	alone := 0
	for range partitions {
		w.awaitCommits(rng.IntN(100))
		victim := rng.IntN(3)
		if rng.IntN(4) > 0 {
			l := leader(t, w.client, nodes)
			for victim = 0; nodes[victim] != l; victim++ {
			}
		}
		at, other := islands[victim], islands[(victim+1+rng.IntN(2))%3]
		if rng.IntN(2) == 0 {
			alone++
			must("link set %s down", at.cable)
			w.answered()
			w.awaitCommits(rng.IntN(100))
			must("link set %s up", at.cable)
		} else {
			must("-n %s route add blackhole %s/32", at.name, other.address)
			w.answered()
			w.awaitCommits(rng.IntN(100))
			must("-n %s route del blackhole %s/32", at.name, other.address)
		}
	}
	w.report("%d partitions, in %d of which one node was cut off from all", partitions, alone)
}
