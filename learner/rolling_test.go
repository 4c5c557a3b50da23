package main_test

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// Three coordinators, two workers and their actors are replaced, one after the other and in any order, while runs go
// on: to the same bits.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	rng, updates := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(1, 20)
	e := examples[1]
	for range updates {
		f := newFleet(t)
		var runs []string
		for i := range 4 {
			runs = append(runs, f.submit(e, fmt.Sprint("r", i)))
		}
		f.team(0)
		f.team(1)
		done := 0
		for _, next := range rng.Perm(5) {
			done += rng.IntN(3)
			f.await(runs[0], func(run *registry.Run) bool { return run.Iteration() >= uint64(min(done, e.iterations)) })
			if next < 3 {
				f.nodes[next].replace()
			} else {
				f.team(next - 3)
			}
		}
		for _, run := range runs {
			f.requireReference(e, f.done(run))
		}
		nodes, err := f.client.Nodes(processtest.Context(t))
		if err != nil || len(nodes) != 3 || slices.ContainsFunc(nodes, func(n client.Node) bool { return !n.Voter }) {
			t.Errorf("after the update: %+v, %v", nodes, err)
		}
		f.end()
	}
	faultstest.Report(t, "%d updates of three coordinators, two workers and their actors; %d runs "+
		"with the bits of undisturbed ones", updates, 4*updates)
}

// fleet is a cluster of three coordinators, two workers and their actors.
type fleet struct {
	*cluster
	nodes [3]*replica
	teams [2][]*process
}

// replica is a coordinator of a fleet.
type replica struct {
	*process
	arguments []string
}

// newFleet starts the coordinators.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{cluster: &cluster{t: t, checkpoints: filepath.Join(t.TempDir(), "checkpoints")}}
	var peers, urls []string
	for i := range f.nodes {
		web, raft := processtest.Address(t), processtest.Address(t)
		f.nodes[i] = &replica{arguments: []string{"serve", "--node-id", fmt.Sprint("n", i), "--data-dir", t.TempDir(),
			"--http", web, "--raft", raft}}
		peers, urls = append(peers, fmt.Sprintf("n%d=%s", i, raft)), append(urls, "http://"+web)
	}
	for _, n := range f.nodes {
		n.arguments = append(n.arguments, "--peers", strings.Join(peers, ","))
		n.start(t)
	}
	for _, n := range f.nodes {
		n.Expect("msg=ready")
	}
	f.url = strings.Join(urls, ",")
	var err error
	if f.client, err = client.New(client.Config{URLs: urls, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.client.Close)
	return f
}

func (n *replica) start(t testing.TB) {
	t.Helper()
	n.process = startCommand(t, exec.Command(filepath.Join(programs, "coordinator"), n.arguments...))
}

// replace stops a coordinator and starts another in its place.
func (n *replica) replace() {
	n.t.Helper()
	n.Signal(syscall.SIGTERM)
	n.Succeed()
	n.start(n.t)
	n.Expect("msg=ready")
}

// team puts a worker and its actor in the place of others, if any, of which the worker is killed.
func (f *fleet) team(number int) {
	f.t.Helper()
	for _, member := range f.teams[number] {
		member.Kill()
	}
	w := f.worker("", "--actors", "0")
	a := startCommand(f.t, exec.Command(filepath.Join(programs, "actor"), "--nats", w.url(), "--slots", "2"))
	f.teams[number] = []*process{w, a}
}

// end ends all.
func (f *fleet) end() {
	for _, team := range f.teams {
		for _, member := range team {
			member.Kill()
		}
	}
	for _, n := range f.nodes {
		n.Kill()
	}
}
