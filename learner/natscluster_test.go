package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// buildNATS builds the nats-server of go.mod.
var buildNATS = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "nats-server")
	output, err := exec.Command("go", "build", "-o", path, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return path, nil
})

// natsNode is one of a cluster of NATS servers.
type natsNode struct {
	*process
	t       *testing.T
	config  string // its file
	monitor string // its URL
}

// startNATSCluster starts some, and returns them with the URL that clients use.
func startNATSCluster(t *testing.T, count int) (nodes []*natsNode, url string) {
	t.Helper()
	directory := t.TempDir()
	var urls, routes []string
	ports := make([][3]int, count) // of clients, of the monitor, and of routes
	for i := range ports {
		ports[i] = [3]int{processtest.Port(t), processtest.Port(t), processtest.Port(t)}
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i][0]))
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[i][2]))
	}
	for i, p := range ports {
		text := fmt.Sprintf(`server_name: n%d
listen: "127.0.0.1:%d"
http: "127.0.0.1:%d"
jetstream { store_dir: %q, max_mem: 256MB, max_file: 1MB }
cluster { name: test, listen: "127.0.0.1:%d", routes: [%s] }
`, i+1, p[0], p[1], filepath.Join(directory, fmt.Sprint("store", i)), p[2], strings.Join(routes, ", "))
		n := &natsNode{t: t, config: filepath.Join(directory, fmt.Sprintf("n%d.conf", i+1)),
			monitor: fmt.Sprintf("http://127.0.0.1:%d", p[1])}
		if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n.begin()
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.healthy()
	}
	return nodes, strings.Join(urls, ",")
}

func (n *natsNode) begin() {
	n.t.Helper()
	program, err := buildNATS()
	if err != nil {
		n.t.Fatal(err)
	}
	n.process = startCommand(n.t, exec.Command(program, "-c", n.config))
}

// healthy waits until the node has all that the others have.
func (n *natsNode) healthy() {
	n.t.Helper()
	processtest.AwaitOK(n.t, n.monitor+"/healthz")
}

// A cluster that is too small to keep policies on three servers keeps them on one.
func TestSmallNATSCluster(t *testing.T) {
	t.Parallel()
	e := examples[1]
	_, url := startNATSCluster(t, 2)
	directory := newDirectory(t)
	learner := start(t, "learner", e.externally(directory, url, "--actors", "1")...)
	learner.Expect("the NATS cluster keeps policies on one server only")
	learner.Succeed()
	e.requireReference(t, directory)
}

// Of a cluster of three NATS servers any one may be lost, again and again, the one that leads or not: the others go on.
func TestNATSCluster(t *testing.T) {
	t.Parallel()
	rng, losses := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(3, 30)
	nodes, url := startNATSCluster(t, 3)
	e := examples[1]
	actors := startPlaying(t, e, url)
	learner := learnUntilStopped(t, e, url)
	learner.iterations(1)
	var took []time.Duration
	for loss := range losses {
		lost := nodes[loss%3]                                     // each in its turn
		time.Sleep(time.Duration(rng.Int64N(int64(time.Second)))) // a random moment, not a wait
		lost.Kill()
		took = append(took, actors.again())
		learner.next()
		lost.begin()
		for _, n := range nodes {
			n.healthy()
		}
	}
	hash := learner.stop()
	faultstest.Report(t, "%d NATS servers of a cluster of 3 killed, each in its turn; collecting again after %s; %d "+
		"iterations end with hash %s, as undisturbed",
		losses, spread(took), learner.done, hash)
}
