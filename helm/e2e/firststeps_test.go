//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// What a new user does: an installation with credentials of their own, which pods wait for; an experiment, which is watched until
// it is over, cancelled, queued again; its policy is fetched.
func TestFirstSteps(t *testing.T) {
	u := newUser(t, "steps")
	u.checkOut()
	values := u.file(`
credentials: {mode: existing}
experiment: null`)
	u.follow("Install", "helm install", "kubectl create namespace training\n", "", "helm/gpu.yaml", "helm/kind.yaml --values "+values)
	u.untilSaid(`secret "dbqpg-credentials" not found`, "describe", "pods")
	u.follow("Credentials", "credentials create")
	u.untilReady()
	u.helm("test", "dbqpg")

	u.follow("Scale", "scale deployment", "--replicas 16 ", "--replicas 0 ")
	u.upgradeActors(2, values) // what kind.yaml has
	left := u.file("{credentials: {mode: existing}, actors: {pools: {standard: {replicas: null}}}, experiment: null}")
	u.upgradeActors(1, left)
	u.follow("Scale", "scale deployment", "--replicas 16 ", "--replicas 0 ")
	u.upgradeActors(0, left)
	u.scaleActors(1)

	said := u.follow("Submit and watch", "submit", "Humanoid-v2", "Swimmer-v2\noverrides: {iterations: 2, batch: 1000}")
	for _, pod := range append(u.pods("learner"), u.pods("coordinator")...) {
		if !strings.Contains(said, pod.Name) {
			t.Errorf("coordinator nodes does not know of %s:\n%s", pod.Name, said)
		}
	}
	if runs := u.runs("humanoid"); len(runs) != 6 || states(runs) != "done" {
		t.Errorf("in the end: %v", runs)
	}
	u.follow("Fetch the policy", "report", "Humanoid-v2", "Swimmer-v2")
	u.seesMetrics("learner", "dbqpg_")
	u.seesMetrics("coordinator", "dbqpg_")
	u.seesMetrics("actor", "dbqpg_")

	u.kubectl("scale", "deployment", "dbqpg-actor-standard", "--replicas", "0")
	u.shell("printf 'name: long\ntasks: Swimmer-v2\noverrides: {iterations: 2, batch: 1000}\n' | " +
		"kubectl -n steps exec -i dbqpg-coordinator-0 -- coordinator submit -")
	again := u.changed("Submit and watch", "cancel", "humanoid", "long")
	alias, _, _ := strings.Cut(u.changed("Submit and watch", "submit"), "\n")
	cancel, retry, found := strings.Cut(again, "coordinator retry")
	if !found {
		t.Fatal(again)
	}
	u.shell(alias + "\n" + cancel)
	if runs := u.runs("long"); states(runs) != "cancelled" {
		t.Errorf("after coordinator cancel: %v", runs)
	}
	u.shell(alias + "\ncoordinator retry" + retry)
	u.kubectl("scale", "deployment", "dbqpg-actor-standard", "--replicas", "1")
	u.shell(alias + "\ncoordinator watch long")
	if runs := u.runs("long"); states(runs) != "done" {
		t.Errorf("after coordinator retry: %v", runs)
	}
	u.follow("Upgrade, roll back, remove", "helm uninstall")
	u.until(func() string {
		return u.kubectl("get", "all,secrets,pvc,pdb,networkpolicies,roles,rolebindings", "--output", "name")
	})
}

// upgradeActors upgrades the release, which has as many actors then.
func (u *user) upgradeActors(wanted int, values string) {
	u.t.Helper()
	u.helm("upgrade", "dbqpg", "charts/dbqpg", "--values", "helm/kind.yaml", "--values", values)
	if replicas := u.kubectl("get", "deployment", "dbqpg-actor-standard", "--output", "jsonpath={.spec.replicas}"); replicas != strconv.Itoa(wanted) {
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
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9464/proxy/metrics", u.namespace, u.pods(component)[0].Name)
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
		if said, err = u.try("kubectl", append([]string{"--namespace", u.namespace}, arguments...)...); err != nil {
			return err.Error()
		}
		if !strings.Contains(said, text) {
			return fmt.Sprintf("kubectl %s does not say %q:\n%s", strings.Join(arguments, " "), text, said)
		}
		return ""
	})
	return said
}
