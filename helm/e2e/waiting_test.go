//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

const broken = `
images: {tag: absent}
credentials: {mode: existing}
coordinator: {storage: {class: absent}}
learner: {nodeSelector: {kubernetes.io/hostname: tainted}}
actors: {pools: {standard: {replicas: 1}}}
experiment: null`

// The table "When a pod does not start" has what Kubernetes says.
func TestPodsDoNotStart(t *testing.T) {
	u := newUser(t, "waiting")
	u.checkOut()
	u.addNode("tainted", 16, map[string]string{"spot": "true"})
	u.helm("install", "dbqpg", "charts/dbqpg", "--values", "helm/kind.yaml", "--values", u.file(broken))
	u.untilIs("coordinator", "Pending", "unbound")
	u.untilIs("learner", "Pending", "taint")
	u.untilIs("nats", "ContainerCreating", "secret")
	u.follow("Credentials", "credentials create")
	u.untilIs("actor", "ImagePullBackOff", "ImagePullBackOff")
	u.untilSaid("ghcr.io/dbqpg/actor:absent", "describe", "pods") // "the image's name in the event"
	u.helm("uninstall", "dbqpg")
}

// Credentials with the names of another namespace: what somebody has who takes the documentation's commands as they are.
func TestOtherNames(t *testing.T) {
	u := newUser(t, "names")
	u.checkOut()
	u.shell(strings.ReplaceAll(documented(t, "Credentials", "credentials create"), "-n training", "-n names"))
	u.install("kind", "{credentials: {mode: existing}, experiment: null}")
	if !strings.Contains(row(t, "restarts at once")[2], "under a name that is not in its certificate") {
		t.Error(row(t, "restarts at once"))
	}
	for _, component := range []string{"actor", "coordinator"} {
		u.untilRestarted(component, 1)
		if last := u.lastWords(component); !strings.Contains(last, "the server's certificate must be issued for the name used to reach it") {
			t.Errorf("last line of %s: %s", component, last)
		}
	}
	u.helm("uninstall", "dbqpg")
}

// untilIs waits until a component's pod has a status, and says what the table has in the row with a text.
func (u *user) untilIs(component, status, text string) {
	u.t.Helper()
	selector := "--selector=app.kubernetes.io/component=" + component
	u.untilSaid(status, "get", "pods", selector)
	first := row(u.t, text)[0]
	if !strings.Contains(first, status) {
		u.t.Errorf("a pod is %s; the table: %s", status, first)
	}
	if parts := strings.Split(first, "`"); len(parts) == 3 {
		u.untilSaid(parts[1], "describe", "pods", selector)
	}
	_, events, _ := strings.Cut(u.kubectl("describe", "pods", selector), "Events:")
	u.t.Log(events)
}
