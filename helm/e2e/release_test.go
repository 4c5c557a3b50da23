package e2e

import (
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/helm/internal/progress"
)

const small = `
coordinator: {replicas: 3}
nats: {replicas: 3}
actors: {pools: {standard: {replicas: 0}}}
experiment: {name: first, tasks: Swimmer-v2, overrides: {iterations: 12, batch: 2000}}`

// A release from its installation to its end. A run is under way all the time: actors are scaled from none to some, pods are
// evicted, the release is upgraded and rolled back, and the run ends with the same bits as that of one process alone. Then all
// is removed, the volumes remain, and a new installation has the run.
func TestRelease(t *testing.T) {
	u := newUser(t, "training")
	values := u.values("kind", small)
	installed := u.install("dbqpg", values, true)
	u.test("dbqpg")
	t.Log(u.shell(noted(t, installed, "coordinator nodes")))

	u.scaleActors(2)
	u.until("iteration 3", func() bool { return u.steps("first") >= 3*2000 })
	for _, component := range []string{"actor", "learner", "coordinator", "nats"} {
		u.evict(component)
	}
	reached := u.steps("first")
	u.until("another iteration after the evictions", func() bool { return u.steps("first") > reached })

	u.scaleActors(0) // so that the run cannot end meanwhile
	u.upgrade("dbqpg", u.values("kind", small+`
learner: {extraArgs: ["--log-level=debug"]}
tracing: {endpoint: "http://nowhere.training.svc:4318"}`))
	u.rollback("dbqpg", 1)
	if reached > u.steps("first") {
		t.Errorf("of %d steps there are %d after an upgrade and a rollback", reached, u.steps("first"))
	}

	u.scaleActors(2)
	u.shell(noted(t, installed, "coordinator watch first"))
	fetched := t.TempDir()
	u.shell("cd " + fetched + "; " + noted(t, installed, "tar x"))
	runs, err := filepath.Glob(filepath.Join(fetched, "first", "Swimmer-v2", "npg-uapg-s1", "epoch-*", "progress.csv"))
	if err != nil || len(runs) == 0 {
		t.Fatal(u.shell("find "+fetched), err)
	}
	if err := progress.Compare(12, runs[len(runs)-1], alone(t)); err != nil {
		t.Error(err)
	}

	u.uninstall("dbqpg")
	if claims := u.claims(); claims != 3+3+1 {
		t.Errorf("%d claims are left after helm uninstall", claims)
	}
	u.install("dbqpg", values, true)
	if steps := u.steps("first"); steps != 12*2000 {
		t.Errorf("a new installation has %d steps of the run", steps)
	}
	u.upgrade("dbqpg", u.values("kind", small+"\nkeepVolumes: false"))
	u.uninstall("dbqpg")
	u.until("no claims are left, as was asked for", func() bool { return u.claims() == 0 })
}
