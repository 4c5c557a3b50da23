//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// A worker on a GPU trains in a pod: the image for GPUs, the node's plugin for devices, and in place of NVIDIA's driver
// and cuBLAS the emulated ones, mounted as NVIDIA's are. A second worker waits for a GPU of its own.
func TestGPU(t *testing.T) {
	needsOwn(t, "a GPU that is emulated")
	remove, err := own.AddGPU(driver)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	u := newUser(t)
	u.install("kind", `
learner: {device: cuda, tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]}
checkpoints: {volume: {accessMode: ReadWriteMany}}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 2, batch: 1000}}]`, "--wait")
	defer u.helm("uninstall", "dbqpg", "--wait")
	u.untilSteps("first", 2000)
	if log := u.kubectl("logs", u.pods("learner")[0].Name); !strings.Contains(log, "cuda:0 (emulated GPU") {
		t.Errorf("the worker is not on the GPU:\n%s", log)
	}
	u.kubectl("scale", "deployment", "dbqpg-learner", "--replicas", "2")
	u.until(func() string {
		if described := u.kubectl("describe", "pods"); !strings.Contains(described, "Insufficient nvidia.com/gpu") {
			return described
		}
		return ""
	})
}
