//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/helm/internal/progress"
)

const (
	iterations = 30
	batch      = 2000
	small      = `
coordinator: {replicas: 3}
nats: {replicas: 3}
actors: {pools: {standard: {replicas: 0}}}
experiment: {name: first, tasks: Swimmer-v2, overrides: {iterations: 30, batch: 2000}}`
)

// A release from its installation to its end. A run is under way all the time: actors are scaled from none to some and back, all
// pods are evicted, a coordinator loses its volume, the release is upgraded and rolled back, and the run ends with the same bits as
// that of one process alone. Then all is removed, the volumes remain, and a new installation has the run.
func TestRelease(t *testing.T) {
	u := newUser(t, "training")
	notes := u.install("kind", small, "--wait")
	u.helm("test", "dbqpg")
	t.Log(u.shell(noted(t, notes, "coordinator nodes")))

	u.scaleActors(2)
	u.untilSteps("first", 3*batch)
	u.evict("learner")
	u.evict("actor")
	u.scaleActors(0) // so that the run cannot end meanwhile
	u.evict("coordinator")
	u.evict("nats")
	u.loseVolume()
	u.upgrade("kind", small+`
learner: {extraArgs: ["--log-level=debug"]}
tracing: {endpoint: "http://nowhere.training.svc:4318"}`, "--wait")
	u.helm("rollback", "dbqpg", "1", "--wait")
	if steps := u.steps("first"); steps < 3*batch || steps >= iterations*batch {
		t.Fatalf("after all this the run is at step %d", steps)
	}

	u.scaleActors(2)
	u.shell(noted(t, notes, "coordinator watch first"))
	fetched := t.TempDir()
	u.shell("cd " + fetched + "; " + noted(t, notes, "tar x"))
	tables, err := filepath.Glob(filepath.Join(fetched, "first", "Swimmer-v2", "npg-uapg-s1", "epoch-*", "progress.csv"))
	if err != nil || len(tables) == 0 {
		t.Fatal(u.shell("find "+fetched), err)
	}
	if err := progress.Compare(iterations, tables[len(tables)-1], alone(t)); err != nil {
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
	u.upgrade("kind", small+"\nkeepVolumes: false", "--wait")
	u.helm("uninstall", "dbqpg", "--wait")
	u.until(func() string {
		if u.claims() > 0 {
			return "claims are left, where none were to be kept"
		}
		return ""
	})
}
