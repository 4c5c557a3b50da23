//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"
)

// A run without a coordinator: its learner's and an actor's pods are killed, it is suspended and resumed, and both Jobs
// complete.
func TestRunWithoutCoordinator(t *testing.T) {
	u := newUser(t)
	u.values("kind", "experiments: []\nrun: {env: Swimmer-v5, actors: 2, settings: {iterations: 30, batch: 1000}}")
	chart := filepath.Join(u.directory, "charts", "dbqpg")
	values := filepath.Join(u.directory, "my-values.yaml")
	u.helm("install", "swimmer", chart, "--values", values)
	trains := func() {
		u.until(func() string {
			if log, err := u.try("kubectl", "--namespace", namespace, "logs", "job/swimmer-dbqpg-learner"); err != nil {
				return log
			}
			return ""
		})
	}
	trains()
	u.kubectl("delete", "pod", "--selector", "app.kubernetes.io/component=learner")
	u.kubectl("delete", "pod", "--selector", "batch.kubernetes.io/job-completion-index=0")
	trains()
	u.helm("upgrade", "swimmer", chart, "--values", values, "--set", "run.suspend=true")
	u.until(func() string {
		if len(u.pods("learner")) > 0 {
			return "the learner has a pod"
		}
		return ""
	})
	u.helm("upgrade", "swimmer", chart, "--values", values)
	u.kubectl("wait", "--for=condition=complete", "job/swimmer-dbqpg-learner", "job/swimmer-dbqpg-actor",
		"--timeout", patience.String())
	u.helm("uninstall", "swimmer", "--wait")
}
