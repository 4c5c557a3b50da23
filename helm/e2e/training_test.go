package e2e

import (
	"encoding/json"
	"testing"
)

// A release from its installation to its end, with a run under way all the time, which ends with the same bits as one
// process alone.
func TestRelease(t *testing.T) {
	u := newUser(t, "training")
	values := u.values("kind", `
coordinator: {replicas: 3}
nats: {replicas: 3}
actors: {pools: {standard: {replicas: 0}}}
experiment: {name: first, tasks: Swimmer-v2, overrides: {iterations: 40, batch: 2000}}`)
	u.install("dbqpg", values, true)
	t.Log(u.kubectl("get", "pods", "-o", "wide"))
	u.test("dbqpg")
	u.kubectl("scale", "deployment", "dbqpg-actor-standard", "--replicas", "2")
	u.until("iteration 3", func() bool { return u.iteration("first") >= 3 })
	t.Log(u.kubectl("get", "pods", "-o", "wide"))
}

// iteration is how far an experiment's only run is, by the coordinator.
func (u *user) iteration(experiment string) int {
	u.t.Helper()
	var runs []struct{ Iteration int }
	output := u.kubectl("exec", "dbqpg-coordinator-0", "--", "coordinator", "list", experiment, "--json")
	if err := json.Unmarshal([]byte(output), &runs); err != nil || len(runs) != 1 {
		u.t.Fatalf("%v: %s", err, output)
	}
	return runs[0].Iteration
}
