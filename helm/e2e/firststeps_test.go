//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// What a new user does: an installation with credentials of their own, which pods wait for; an experiment, which is
// watched until it is over, cancelled, queued again; its policy is fetched.
func TestFirstSteps(t *testing.T) {
	u := newUser(t)
	const mine = "credentials: {mode: existing}\nexperiments: []\n"
	u.install("kind", mine)
	u.untilSaid(`secret "dbqpg-credentials-nats" not found`, "describe", "pods")
	u.run("install", "create")
	u.untilReady()
	u.helm("test", "dbqpg")

	u.run("operate", "scale")
	u.scaleActors(0)
	u.upgradeActors(2, mine) // what kind.yaml has
	const left = mine + "actors: {pools: {standard: {replicas: null}}}"
	u.upgradeActors(1, left)
	u.scaleActors(0)
	u.upgradeActors(0, left)
	u.scaleActors(1)

	said := u.connected("coordinator nodes")
	for _, pod := range append(u.pods("learner"), u.pods("coordinator")...) {
		if !strings.Contains(said, pod.Name) {
			t.Errorf("coordinator nodes does not know of %s:\n%s", pod.Name, said)
		}
	}
	// The documented experiment takes hours on this task.
	u.connected(strings.ReplaceAll(block(t, "install", "submit"), "Humanoid-v5",
		"Swimmer-v2\noverrides: {iterations: 2, batch: 1000}"))
	if runs := u.runs("humanoid"); len(runs) != 6 || states(runs) != "done" {
		t.Errorf("in the end: %v", runs)
	}
	u.run("install", "fetch")
	u.seesMetrics("learner", "dbqpg_certificate_expiry_timestamp_seconds")
	u.seesMetrics("coordinator", "dbqpg_certificate_expiry_timestamp_seconds")
	u.seesMetrics("actor", "dbqpg_certificate_expiry_timestamp_seconds")

	u.scaleActors(0)
	u.submit("name: long\ntasks: Swimmer-v2\noverrides: {iterations: 2, batch: 1000}")
	u.coordinator("cancel", "long")
	if runs := u.runs("long"); states(runs) != "cancelled" {
		t.Errorf("after coordinator cancel: %v", runs)
	}
	u.coordinator("retry", "long")
	u.scaleActors(1)
	u.coordinator("watch", "long")
	if runs := u.runs("long"); states(runs) != "done" {
		t.Errorf("after coordinator retry: %v", runs)
	}
	u.run("install", "replace")
	u.run("operate", "remove")
	// which no label of the release is on
	u.kubectl("delete", "secret", "dbqpg-credentials-nats", "dbqpg-credentials-actor")
}

// upgradeActors upgrades the release, which has as many actors then.
func (u *user) upgradeActors(wanted int, values string) {
	u.t.Helper()
	u.upgrade("kind", values)
	if replicas := u.kubectl("get", "deployment", "dbqpg-actor-standard", "--output",
		"jsonpath={.spec.replicas}"); replicas != strconv.Itoa(wanted) {
		u.t.Errorf("after an upgrade there are %s actors, not %d", replicas, wanted)
	}
}

// states returns the possible states of runs.
func states(runs []run) string {
	seen := map[string]bool{}
	var all []string
	for _, r := range runs {
		if !seen[r.State] {
			seen[r.State] = true
			all = append(all, r.State)
		}
	}
	return strings.Join(all, " ")
}

// seesMetrics gets the metrics of a component's first pod.
func (u *user) seesMetrics(component, text string) {
	u.t.Helper()
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9464/proxy/metrics", namespace, u.pods(component)[0].Name)
	if metrics := u.kubectl("get", "--raw", path); !strings.Contains(metrics, text) {
		u.t.Errorf("%s has no %s:\n%s", component, text, metrics)
	}
}

// untilReady waits until all pods of all workloads are ready.
func (u *user) untilReady() {
	u.t.Helper()
	for workload := range strings.FieldsSeq(u.kubectl("get", "deployments,statefulsets", "--output", "name")) {
		u.kubectl("rollout", "status", workload, "--timeout", patience.String())
	}
}

// untilSaid waits until kubectl says something, and returns all that it says then.
func (u *user) untilSaid(text string, arguments ...string) (said string) {
	u.t.Helper()
	u.until(func() string {
		var err error
		if said, err = u.try("kubectl", append([]string{"--namespace", namespace}, arguments...)...); err != nil {
			return err.Error()
		}
		if !strings.Contains(said, text) {
			return fmt.Sprintf("kubectl %s does not say %q:\n%s", strings.Join(arguments, " "), text, said)
		}
		return ""
	})
	return said
}
