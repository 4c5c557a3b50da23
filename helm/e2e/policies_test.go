//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A pod of any kind does not get in where Pod Security is enforced, as it is in all tests; so the chart's do for what
// they are. And no pod is reached by whom it does not need: who plays does not reach the coordinator, and nobody the
// NATS servers' monitors or the ports by which they and the coordinators talk among themselves. That all others do what
// they need, the other tests show.
func TestPolicies(t *testing.T) {
	u := newUser(t)
	if _, err := u.try("kubectl", "--namespace", namespace, "run", "free",
		"--image=registry.k8s.io/pause:3.10"); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Fatalf("a pod that restricts itself in nothing: %v", err)
	}
	u.install("kind", "experiments: []", "--wait")
	defer u.helm("uninstall", "dbqpg")
	actor, learner := u.pods("actor")[0].Name, u.pods("learner")[0].Name
	coordinator, nats := u.pods("coordinator")[0].Status.PodIP, u.pods("nats")[0].Status.PodIP
	for _, test := range []struct {
		from, to string
		port     int
		open     bool
	}{
		{actor, nats, 4222, true},
		{actor, nats, 8222, false},
		{actor, nats, 6222, false},
		{actor, coordinator, 7070, false},
		{actor, coordinator, 7071, false},
		{actor, coordinator, 9464, true}, // the metrics' readers are any pods, unless metricsFrom says which
		{learner, nats, 4222, true},
		{learner, coordinator, 7070, true},
		{learner, coordinator, 7071, false},
	} {
		connect := fmt.Sprintf("timeout 2 bash -c '</dev/tcp/%s/%d' 2>&1 || echo closed", test.to, test.port)
		output := u.kubectl("exec", test.from, "--", "bash", "-c", connect)
		refused := strings.Contains(output, "refused") // by the pod itself: let in, and nobody listens
		if open := !strings.Contains(output, "closed") || refused; open != test.open {
			t.Errorf("from %s to port %d: open is %v\n%s", test.from, test.port, open, output)
		}
	}
}
