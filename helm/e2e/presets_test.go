//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The preset for one small machine installs on one, as it is, and trains.
func TestSmallMachine(t *testing.T) {
	u := newUser(t)
	u.install("kind", "", "--wait")
	u.untilSteps("first", 1)
	u.helm("uninstall", "dbqpg", "--wait")
}

// Each preset installs as it is in a namespace where Pod Security "restricted" is enforced, and its pods find the nodes
// that they are meant for: those of a larger cluster, on which nothing runs.
func TestPresets(t *testing.T) {
	for _, test := range []struct {
		preset string
		nodes  map[string]string // by the beginning of a pod's name
		before string            // why the learner's pod is pending while there are none
	}{
		{"cpu", map[string]string{"dbqpg-learner": "", "dbqpg-actor": "large"}, ""},
		{"gpu", map[string]string{"dbqpg-learner": "gpu", "dbqpg-actor": "large"}, "Insufficient nvidia.com/gpu"},
		{"spot", map[string]string{"dbqpg-learner": "gpu", "dbqpg-actor-standard": "large", "dbqpg-actor-spot": "spot"},
			"Insufficient nvidia.com/gpu"},
		{"external-nats", map[string]string{"dbqpg-learner": "gpu", "dbqpg-actor": "large"},
			"Insufficient nvidia.com/gpu"},
	} {
		t.Run(test.preset, func(t *testing.T) {
			needsOwn(t, "nodes that the scheduler alone knows")
			u := newUser(t)
			u.install(test.preset, "")
			defer u.helm("uninstall", "dbqpg") // before the nodes go, or all pods would crowd on the one that there is
			u.until(func() string {
				described := u.kubectl("describe", "pods", "--selector", "app.kubernetes.io/component=learner")
				if strings.Contains(described, test.before) {
					return ""
				}
				return fmt.Sprintf("the learner is not pending for %q:\n%s", test.before, described)
			})
			u.addNode("large", 200, nil)
			u.addNode("gpu", 16, map[string]string{"nvidia.com/gpu": "present"})
			u.addNode("spot", 200, map[string]string{"cloud.google.com/gke-spot": "true"})
			u.until(func() string { return u.misplaced(test.nodes) })
		})
	}
}

// misplaced says which pod is not where it belongs, if there is one. A node that is "" may be any.
func (u *user) misplaced(nodes map[string]string) string {
	u.t.Helper()
	seen := map[string]bool{}
	for _, pod := range u.pods("") {
		if pod.Spec.NodeName == "" {
			return pod.Name + " has no node"
		}
		for prefix, node := range nodes {
			if strings.HasPrefix(pod.Name, prefix) {
				seen[prefix] = true
				if node != "" && pod.Spec.NodeName != node {
					return fmt.Sprintf("%s is on %s", pod.Name, pod.Spec.NodeName)
				}
			}
		}
	}
	if len(seen) < len(nodes) {
		return "some pods are not there yet"
	}
	return ""
}

// addNode adds a node on which nothing runs, for as long as the test does: the scheduler alone knows it. Taints keep
// pods away; each is a label too, and nvidia.com/gpu one GPU.
func (u *user) addNode(name string, cores int64, taints map[string]string) {
	u.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelHostname: name}}}
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cores, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	for key, value := range taints {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule})
		node.Labels[key] = value
		if key == "nvidia.com/gpu" {
			node.Status.Capacity[corev1.ResourceName(key)] = resource.MustParse("1")
			node.Labels[key+".present"] = "true"
		}
	}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(u.ctx, node, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { // with the pods that it was given, which nobody would end
		at := metav1.ListOptions{FieldSelector: "spec.nodeName=" + name}
		err := client.CoreV1().Pods(namespace).DeleteCollection(u.ctx, *metav1.NewDeleteOptions(0), at)
		if err == nil {
			err = nodes.Delete(u.ctx, name, metav1.DeleteOptions{})
		}
		if err != nil {
			u.t.Error(err)
		}
	})
}
