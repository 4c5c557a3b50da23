//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Three coordinators become five, three, and five again; a run that was submitted to the first three is known to all of them.
func TestMoreCoordinators(t *testing.T) {
	u := newUser(t, "more")
	values := u.file(`
coordinator: {replicas: 3}
actors: {pools: {standard: {replicas: 0}}}
experiment: {name: first, tasks: Swimmer-v2, overrides: {iterations: 3, batch: 1000}}`)
	u.helm("install", "dbqpg", "charts/dbqpg", "--values", "helm/kind.yaml", "--values", values, "--wait")
	presets := []string{"helm/gpu.yaml", "helm/kind.yaml --values " + values}
	alias, _, _ := strings.Cut(u.changed("Submit and watch", "submit"), "\n")
	more := func(nodes int) {
		u.follow("Upgrade, roll back, remove", "replicas=5", presets...)
		u.untilNodes(nodes)
	}
	more(5)
	u.shell(alias + "\n" + u.changed("Upgrade, roll back, remove", "replicas=3", presets...))
	u.untilNodes(3)
	more(5)
	u.scaleActors(1)
	u.coordinator("watch", "first")
	u.helm("uninstall", "dbqpg", "--wait")
}

// Two of three coordinators lose their volumes. They wait, and say why; with the documented commands all three begin with a backup.
func TestRestore(t *testing.T) {
	u := newUser(t, "restore")
	u.checkOut()
	u.install("kind", `
coordinator: {replicas: 3}
actors: {pools: {standard: {replicas: 0}}}
experiment: {name: first, tasks: Swimmer-v2, overrides: {iterations: 3, batch: 1000}}`, "--wait")
	alias, _, _ := strings.Cut(u.changed("Submit and watch", "submit"), "\n")
	u.shell(alias + "\n" + u.changed("Upgrade, roll back, remove", "coordinator backup"))
	u.kubectl("delete", "pvc", "data-dbqpg-coordinator-1", "data-dbqpg-coordinator-2", "--wait=false")
	u.kubectl("delete", "pod", "dbqpg-coordinator-1", "dbqpg-coordinator-2")
	u.untilSaid("the directories of most nodes are empty", "logs", "--selector=app.kubernetes.io/component=coordinator", "--tail=-1")

	u.follow("Upgrade, roll back, remove", "--restore=-")
	u.untilNodes(3)
	if runs := u.runs("first"); len(runs) != 1 {
		t.Errorf("after all: %v", runs)
	}
	u.helm("uninstall", "dbqpg", "--wait")
}

// untilNodes waits until as many coordinators are ready, and each of them lists as many.
func (u *user) untilNodes(count int) {
	u.t.Helper()
	u.kubectl("rollout", "status", "statefulset", "dbqpg-coordinator", "--timeout", patience.String())
	u.until(func() string {
		pods := u.pods("coordinator")
		if len(pods) != count {
			return fmt.Sprintf("%d coordinators' pods", len(pods))
		}
		for _, pod := range pods {
			output, err := u.try("kubectl", "--namespace", u.namespace, "exec", pod.Name, "--", "coordinator", "nodes", "--json")
			if err != nil {
				return err.Error()
			}
			var list struct{ Nodes []any }
			if err := json.Unmarshal([]byte(output), &list); err != nil {
				u.t.Fatal(err)
			}
			if len(list.Nodes) != count {
				return fmt.Sprintf("%s lists %s", pod.Name, output)
			}
		}
		return ""
	})
}
