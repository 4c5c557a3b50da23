package main_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/failpointtest"
	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// earlier is the commit whose programs this build's must get along with: the one before a release, until there is one.
const earlier = "3650323dc3f0ab32eb72c4b54977d994f823d119"

// sameBits is the first commit whose arithmetic is this build's, to the last bit. A fleet of programs that round differently makes runs
// that nobody can repeat, however well they get along.
const sameBits = "e9ea58e88d0e3f487442e96888f231dda25dd61c"

// Three coordinators, two workers and their actors are replaced by those of this build, one after the other and in any order, while
// runs go on: to the same bits, whichever programs trained them together.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	rng, updates := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(1, 20)
	before := processtest.Earlier(t, sameBits, "./learner", "./actor", "./coordinator")
	mixed := *examples[1]
	mixed.earlier = true
	e := &mixed
	for range updates {
		f := newFleet(t, before)
		var runs []string
		for i := range 4 {
			runs = append(runs, f.submit(e, fmt.Sprint("r", i)))
		}
		f.team(0, before, programs)
		f.team(1, programs, before)
		done := 0
		for _, next := range rng.Perm(5) {
			done += rng.IntN(3)
			f.await(runs[0], func(run *registry.Run) bool { return run.Iteration() >= uint64(min(done, e.iterations)) })
			if next < 3 {
				f.nodes[next].replace(programs)
			} else {
				f.team(next-3, programs, programs)
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
	faultstest.Report(t, "%d updates of three coordinators, two workers and their actors from commit %.7s; %d runs with the bits of undisturbed ones", updates, sameBits, 4*updates)
}

// A node of this build's has an earlier one's leader answer; an earlier one's node refers to the leader, and clients go on to others.
func TestEarlierLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, processtest.Earlier(t, earlier, "./learner", "./actor", "./coordinator"))
	leader := func() int {
		nodes, err := f.client.Nodes(processtest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return slices.IndexFunc(nodes, func(n client.Node) bool { return n.Leader })
	}
	now := (leader() + 1) % 3
	f.nodes[now].replace(programs)
	for leader() == now { // it leaves the lead to an earlier one
		f.nodes[now].replace(programs)
	}
	urls := strings.Split(f.url, ",")
	ask := func(method, path, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(processtest.Context(t), method, urls[now]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultTransport.RoundTrip(request) // which follows nobody
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
			t.Errorf("%s %s is answered %s: %s", method, path, response.Status, answer)
		}
	}
	ask("POST", "/v1/commands", `{"submit":{"spec":{"name":"x","tasks":["Swimmer-v2"],"algorithms":["npg"],"estimators":["uapg"],"seeds":[1]}}}`)
	ask("GET", "/v1/runs/x%2FSwimmer-v2%2Fnpg-uapg-s1", "")
	ask("GET", "/v1/backup", "")
	c, err := client.New(client.Config{URLs: []string{urls[3-now-leader()]}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if experiments, err := c.Experiments(processtest.Context(t)); err != nil || len(experiments) != 1 {
		t.Errorf("through an earlier build's node: %+v, %v", experiments, err)
	}
	f.end()
}

// A worker of a release takes runs once the coordinator's nodes are of that release, or a later one.
func TestUpgradeOrder(t *testing.T) {
	t.Parallel()
	const before, after = failpointtest.ReleaseVariable + "=1.9.1", failpointtest.ReleaseVariable + "=1.10.0"
	f := newFleet(t, programs, before)
	f.programs, f.environment = programs, []string{after}
	w := f.worker("", "--actors", "1")
	for i, n := range f.nodes {
		w.ExpectTimes(1, `waiting until the coordinator's nodes are of this worker's release.*release=v1.10.0 earlier=".*v1.9.1`)
		if log := w.Log(); strings.Contains(log, "waiting for runs") {
			t.Fatalf("%d coordinators are of an earlier release, and the worker waits for runs:\n%s", 3-i, log)
		}
		n.replace(programs, after)
	}
	w.Expect("waiting for runs")
	w.Kill()
	f.end()
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

// newFleet starts the coordinators, in an environment.
func newFleet(t *testing.T, directory string, environment ...string) *fleet {
	t.Helper()
	f := &fleet{cluster: &cluster{t: t, checkpoints: filepath.Join(t.TempDir(), "checkpoints")}}
	var peers, urls []string
	for i := range f.nodes {
		web, raft := processtest.Address(t), processtest.Address(t)
		f.nodes[i] = &replica{arguments: []string{"serve", "--node-id", fmt.Sprint("n", i), "--data-dir", t.TempDir(), "--http", web, "--raft", raft}}
		peers, urls = append(peers, fmt.Sprintf("n%d=%s", i, raft)), append(urls, "http://"+web)
	}
	for _, n := range f.nodes {
		n.arguments = append(n.arguments, "--peers", strings.Join(peers, ","))
		n.start(t, directory, environment)
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

func (n *replica) start(t testing.TB, directory string, environment []string) {
	t.Helper()
	command := exec.Command(filepath.Join(directory, "coordinator"), n.arguments...)
	command.Env = append(os.Environ(), environment...)
	n.process = startCommand(t, command)
}

// replace stops a coordinator and starts another build's in its place.
func (n *replica) replace(directory string, environment ...string) {
	n.t.Helper()
	n.Signal(syscall.SIGTERM)
	n.Succeed()
	n.start(n.t, directory, environment)
	n.Expect("msg=ready")
}

// team puts a worker and its actor in the place of others, if any, of which the worker is killed.
func (f *fleet) team(number int, worker, actor string) {
	f.t.Helper()
	for _, member := range f.teams[number] {
		member.Kill()
	}
	f.programs = worker
	w := f.worker("", "--actors", "0")
	a := startCommand(f.t, exec.Command(filepath.Join(actor, "actor"), "--nats", w.url(), "--slots", "2"))
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
