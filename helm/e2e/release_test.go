//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dbqpg/dbqpg/helm/internal/progresstest"
)

const (
	iterations = 30
	batch      = 2000
	small      = `
coordinator: {replicas: 3}
nats: {replicas: 3}
actors: {pools: {standard: {replicas: 0}}}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 30, batch: 2000}}]`
)

// A release from its installation to its end. A run is under way all the time: actors are scaled from none to some and
// back, all pods are evicted, a coordinator loses its volume, the release is upgraded and rolled back, and the run ends
// with the same bits as that of one process alone. Then all is removed, the volumes remain, and a new installation has
// the run.
func TestRelease(t *testing.T) {
	u := newUser(t)
	notes := u.install("kind", small, "--wait")
	u.helm("test", "dbqpg")
	t.Log(u.shell(commandsOf(notes, "umask", "port-forward", "export") +
		"\nuntil coordinator nodes; do sleep 0.1; done"))

	u.scaleActors(2)
	u.untilSteps("first", 3*batch)
	u.evict("learner")
	u.evict("actor")
	u.scaleActors(0) // so that the run cannot end meanwhile
	u.evict("coordinator")
	u.evict("nats")
	u.loseVolume()
	u.nothingRestarts(func() { u.upgrade("kind", small) })
	u.upgrade("kind", small+`
learner: {extraArgs: ["--log-level=debug"]}
tracing: {endpoint: "http://nowhere.training.svc:4318"}`)
	u.untilReady()
	u.helm("rollback", "dbqpg", "1", "--wait")
	if steps := u.steps("first"); steps < 3*batch || steps >= iterations*batch {
		t.Fatalf("after all this the run is at step %d", steps)
	}

	u.scaleActors(2)
	u.coordinator("watch", "first")
	u.shell(commandsOf(notes, "tar x"))
	tables, err := filepath.Glob(filepath.Join(u.directory, "first", "Swimmer-v2", "npg-uapg-s1", "epoch-*",
		"progress.csv"))
	if err != nil || len(tables) == 0 {
		t.Fatal(u.shell("find ."), err)
	}
	if err := progresstest.Compare(iterations, tables[len(tables)-1], alone(t)); err != nil {
		t.Error(err)
	}

	u.helm("uninstall", "dbqpg", "--wait")
	if claims := u.claims(); claims != 3+3+1 {
		t.Errorf("%d claims are left after helm uninstall", claims)
	}
	u.install("kind", small, "--wait")
	if steps := u.steps("first"); steps != (iterations+1)*batch { // the batch of the normaliser too
		t.Errorf("a new installation has %d steps of the run", steps)
	}
	u.upgrade("kind", small+"\nkeepVolumes: false")
	u.helm("uninstall", "dbqpg", "--wait")
	u.until(func() string {
		if u.claims() > 0 {
			return "claims are left, where none were to be kept"
		}
		return ""
	})
}

// nothingRestarts fails if an upgrade replaces a pod of a workload: this one has the same images and values.
func (u *user) nothingRestarts(upgrade func()) {
	u.t.Helper()
	before := map[types.UID]string{}
	for _, component := range []string{"coordinator", "nats", "learner", "actor"} {
		for _, pod := range u.pods(component) {
			before[pod.UID] = pod.Name
		}
	}
	chart := filepath.Join(u.directory, "charts", "dbqpg", "Chart.yaml")
	text, err := os.ReadFile(chart)
	if err == nil {
		err = os.WriteFile(chart, bytes.Replace(text, []byte("\nversion: 0.1.0"), []byte("\nversion: 0.1.1"), 1), 0o600)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	upgrade()
	u.untilReady()
	for _, component := range []string{"coordinator", "nats", "learner", "actor"} {
		for _, pod := range u.pods(component) {
			delete(before, pod.UID)
		}
	}
	if len(before) > 0 {
		u.t.Errorf("a new version of the chart alone has replaced %v", before)
	}
}

// commandsOf returns the commands among the notes of an installation that have one of the texts in them.
func commandsOf(notes string, texts ...string) string {
	var found []string
	for line := range strings.Lines(notes) {
		if strings.HasPrefix(line, "  ") && slices.ContainsFunc(texts,
			func(text string) bool { return strings.Contains(line, text) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}
