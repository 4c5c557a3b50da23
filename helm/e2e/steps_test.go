//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaleActors does `kubectl scale`, and waits until as many are ready.
func (u *user) scaleActors(pods int) {
	u.t.Helper()
	u.kubectl("scale", "deployment", "dbqpg-actor-standard", "--replicas", strconv.Itoa(pods))
	u.kubectl("rollout", "status", "deployment", "dbqpg-actor-standard", "--timeout", patience.String())
}

// run is what the coordinator says of a run.
type run struct {
	Name, State, Learner string
	Epoch, Steps         int
}

// runs returns the runs of an experiment.
func (u *user) runs(experiment string) []run {
	u.t.Helper()
	var list struct{ Runs []run }
	output := u.coordinator("list", experiment, "--json")
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		u.t.Fatalf("%v: %s", err, output)
	}
	return list.Runs
}

// steps returns the number of iterations done by an experiment's only run.
func (u *user) steps(experiment string) int {
	u.t.Helper()
	runs := u.runs(experiment)
	if len(runs) != 1 {
		u.t.Fatalf("%s has not one run: %v", experiment, runs)
	}
	return runs[0].Steps
}

// untilSteps waits until the run is as far.
func (u *user) untilSteps(experiment string, steps int) {
	u.t.Helper()
	u.until(func() string {
		if reached := u.steps(experiment); reached < steps {
			return fmt.Sprintf("%s is at step %d of %d", experiment, reached, steps)
		}
		return ""
	})
}

// claims counts the claims of volumes.
func (u *user) claims() int {
	u.t.Helper()
	list, err := client.CoreV1().PersistentVolumeClaims(namespace).List(u.ctx, metav1.ListOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	return len(list.Items)
}

// evict evicts all pods of a component as `kubectl drain` does: the next one when the budget allows it. Then it waits
// until as many others are ready.
func (u *user) evict(component string) {
	u.t.Helper()
	old := u.pods(component)
	if len(old) == 0 {
		u.t.Fatalf("there is no %s", component)
	}
	gone := map[string]bool{}
	for _, pod := range old {
		gone[string(pod.UID)] = true
		u.until(func() string {
			err := client.CoreV1().Pods(namespace).EvictV1(u.ctx,
				&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}})
			if apierrors.IsTooManyRequests(err) { // the budget
				return err.Error()
			}
			if err != nil {
				u.t.Fatal(err)
			}
			return ""
		})
	}
	u.until(func() string {
		ready := 0
		for _, pod := range u.pods(component) {
			if !gone[string(pod.UID)] && isReady(pod) {
				ready++
			}
		}
		if ready < len(old) {
			return fmt.Sprintf("%s: %d pods in place of %d", component, ready, len(old))
		}
		return ""
	})
}

// loseVolume removes the second coordinator's claim and pod, as documented, and waits until the pod that comes back is
// ready.
func (u *user) loseVolume() {
	u.t.Helper()
	u.run("operate", "volume")
	u.kubectl("wait", "--for=condition=Ready", "--timeout", patience.String(), "pod/dbqpg-coordinator-1")
}

// alone trains the same run in one process, without any cluster, and returns its table. Flags are such as --estimator.
func alone(t *testing.T, flags ...string) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "run")
	learner := exec.Command(filepath.Join(programs, "learner"),
		append([]string{"--env", "Swimmer-v2", "--iterations", strconv.Itoa(iterations),
			"--batch", strconv.Itoa(batch), "--device", "cpu", "--listen", "127.0.0.1:0", "--run-dir", directory},
			flags...)...)
	if output, err := learner.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return filepath.Join(directory, "progress.csv")
}

func isReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
