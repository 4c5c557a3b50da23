//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
)

const three = `
coordinator: {replicas: 3}
actors: {pools: {standard: {replicas: 0}}}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 3, batch: 1000}}]`

// Three coordinators become five, three, and five again; a run that was submitted to the first three is known to all of
// them.
func TestMoreCoordinators(t *testing.T) {
	u := newUser(t)
	u.install("kind", three, "--wait")
	const five = "{coordinator: {replicas: 5}}"
	u.upgrade("kind", five)
	u.untilNodes(5)
	u.connected(block(t, "operate", "leave"))
	u.upgrade("kind", "{coordinator: {replicas: 3}}")
	u.untilNodes(3)
	u.upgrade("kind", five)
	u.untilNodes(5)
	u.scaleActors(1)
	u.coordinator("watch", "first")
	u.helm("uninstall", "dbqpg", "--wait")
}

// Two of three coordinators lose their volumes. They wait, and say why; with the documented commands all three begin
// with a backup.
func TestRestore(t *testing.T) {
	u := newUser(t)
	u.install("kind", three, "--wait")
	u.connected(block(t, "operate", "backup"))
	u.kubectl("delete", "pvc", "data-dbqpg-coordinator-1", "data-dbqpg-coordinator-2", "--wait=false")
	u.kubectl("delete", "pod", "dbqpg-coordinator-1", "dbqpg-coordinator-2")
	u.untilSaid("the directories of most nodes are empty", "logs", "--selector=app.kubernetes.io/component=coordinator",
		"--tail=-1")

	u.run("operate", "restore")
	u.untilNodes(3)
	if runs := u.runs("first"); len(runs) != 1 {
		t.Errorf("after all: %v", runs)
	}
	u.helm("uninstall", "dbqpg", "--wait")
}

// untilNodes waits until as many coordinators are ready and listed.
func (u *user) untilNodes(count int) {
	u.t.Helper()
	u.kubectl("rollout", "status", "statefulset", "dbqpg-coordinator", "--timeout", patience.String())
	u.until(func() string {
		if pods := u.pods("coordinator"); len(pods) != count {
			return fmt.Sprintf("%d coordinators' pods", len(pods))
		}
		output := u.coordinator("nodes", "--json")
		var list struct{ Nodes []any }
		if err := json.Unmarshal([]byte(output), &list); err != nil {
			u.t.Fatal(err)
		}
		if len(list.Nodes) != count {
			return "it lists " + output
		}
		return ""
	})
}
