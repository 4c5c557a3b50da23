//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

const broken = `
common: {image: {tag: absent}}
credentials: {mode: existing}
coordinator: {storage: {storageClassName: absent}}
learner: {nodeSelector: {kubernetes.io/hostname: tainted}}
actors: {pools: {standard: {replicas: 1}}}
experiments: []`

// The table "When a pod does not start" has what Kubernetes says.
func TestPodsDoNotStart(t *testing.T) {
	needsOwn(t, "nodes that the scheduler alone knows")
	u := newUser(t)
	u.addNode("tainted", 16, map[string]string{"spot": "true"})
	u.install("kind", broken)
	u.untilIs("coordinator", "Pending", "unbound")
	u.untilIs("learner", "Pending", "taint")
	u.untilIs("nats", "ContainerCreating", "secret")
	u.run("install", "create")
	u.untilIs("actor", "ImagePullBackOff", "ImagePullBackOff")
	u.untilSaid("ghcr.io/dbqpg/actor:absent", "describe", "pods") // "the image's name in the event"
	u.helm("uninstall", "dbqpg")
}

// Credentials with the names of another namespace: what somebody has who takes the documentation's commands as they
// are.
func TestOtherNames(t *testing.T) {
	u := newUser(t)
	u.shell(strings.ReplaceAll(block(t, "install", "create"), ".training.svc", ".elsewhere.svc"))
	u.install("kind", "{credentials: {mode: existing}, experiments: []}")
	if !strings.Contains(row(t, "restarts at once")[2], "under a name that is not in its certificate") {
		t.Error(row(t, "restarts at once"))
	}
	u.untilRestarted("actor", 1)
	if last := u.lastWords("actor"); !strings.Contains(last,
		"the server's certificate must be issued for the name used to reach it") {
		t.Errorf("last line of an actor: %s", last)
	}
	waits := strings.Split(row(t, "a worker waits")[0], "`")[1]
	u.untilSaid(waits, "logs", "--selector=app.kubernetes.io/component=learner", "--tail=-1")
	u.untilSaid(waits, "logs", "--selector=app.kubernetes.io/component=coordinator", "--tail=-1")
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
