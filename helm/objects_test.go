package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// podOf returns the pods that an object makes.
func podOf(t testing.TB, o *unstructured.Unstructured) (pod *corev1.PodTemplateSpec) {
	t.Helper()
	switch o.GetKind() {
	case "StatefulSet", "Deployment", "Job":
		template, _, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err != nil {
			t.Fatal(err)
		}
		return convert[corev1.PodTemplateSpec](t, template)
	case "CronJob":
		template, _, err := unstructured.NestedMap(o.Object, "spec", "jobTemplate", "spec", "template")
		if err != nil {
			t.Fatal(err)
		}
		return convert[corev1.PodTemplateSpec](t, template)
	case "Pod":
		return convert[corev1.PodTemplateSpec](t, o.Object)
	}
	return nil
}

// convert reads an object as a type, every field of which must be known.
func convert[T any](t testing.TB, object map[string]any) *T {
	t.Helper()
	into := new(T)
	strict := object["kind"] == nil
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, into, strict); err != nil {
		t.Fatal(err)
	}
	return into
}

func containersOf(pod *corev1.PodTemplateSpec) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// Each pod is of the Pod Security Standard "restricted", writes to volumes alone, and has no token, but for the one
// that makes the Secret.
func TestRestricted(t *testing.T) {
	eachSet(t, func(t *testing.T, _ string, r *rendering) {
		for _, o := range r.objects {
			pod := podOf(t, o)
			if pod == nil {
				continue
			}
			for _, fault := range faultsOf(pod, strings.HasPrefix(o.GetName(), "dbqpg-credentials")) {
				t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), fault)
			}
		}
	})
}

func faultsOf(pod *corev1.PodTemplateSpec, mayHaveToken bool) (faults []string) {
	check := func(ok bool, fault string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(fault, args...))
		}
	}
	spec, security := pod.Spec, pod.Spec.SecurityContext
	check(security != nil && security.RunAsNonRoot != nil && *security.RunAsNonRoot &&
		(security.RunAsUser == nil || *security.RunAsUser > 0), "may be root")
	check(security != nil && security.SeccompProfile != nil &&
		security.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "no seccomp profile")
	check(spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken, "has a token")
	check(!spec.HostNetwork && !spec.HostPID && !spec.HostIPC, "is in the host's namespaces")
	for _, volume := range spec.Volumes {
		check(volume.HostPath == nil, "has a volume of the host")
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				check(source.ServiceAccountToken == nil || mayHaveToken, "has a token")
			}
		}
	}
	for _, c := range containersOf(pod) {
		s := c.SecurityContext
		check(s != nil && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation, "%s: may gain privileges",
			c.Name)
		check(s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem, "%s: its root is not read-only",
			c.Name)
		check(s != nil && s.Capabilities != nil && slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) &&
			len(s.Capabilities.Add) == 0, "%s: has capabilities", c.Name)
		check(s != nil && s.Privileged == nil && s.RunAsUser == nil && s.SeccompProfile == nil,
			"%s: differs from its pod", c.Name)
		check(len(c.Resources.Requests) > 0 && c.Resources.Limits.Memory() != nil &&
			!c.Resources.Limits.Memory().IsZero(), "%s: has no requests, or no limit of memory", c.Name)
		for _, m := range c.VolumeMounts {
			check(slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) ||
				m.Name == "data", "%s: mounts %s, which there is not", c.Name, m.Name)
		}
		for _, p := range c.Ports {
			check(p.HostPort == 0, "%s: takes a port of the host", c.Name)
		}
	}
	return faults
}

// A quota of CPU admits all pods of the platform preset.
func TestQuota(t *testing.T) {
	values := presets(t)["platform"]
	merge(values, "nats", map[string]any{"exporter": map[string]any{"enabled": true}})
	for _, o := range render(t, values).objects {
		if pod := podOf(t, o); pod != nil {
			for _, c := range containersOf(pod) {
				if c.Resources.Limits.Cpu().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s: %s has no limit or no request of CPU", o.GetName(), c.Name)
				}
			}
		}
	}
}

// Probes, Services and policies name ports that exist.
func TestPorts(t *testing.T) {
	eachSet(t, func(t *testing.T, _ string, r *rendering) {
		for _, o := range r.objects {
			pod := podOf(t, o)
			if pod == nil {
				continue
			}
			for _, c := range pod.Spec.Containers {
				for kind, probe := range map[string]*corev1.Probe{
					"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe, "startup": c.StartupProbe,
				} {
					if probe != nil && portOf(c, probe.HTTPGet.Port.StrVal) == 0 {
						t.Errorf("%s: the %s probe asks port %s, which there is not", o.GetName(), kind,
							&probe.HTTPGet.Port)
					}
				}
				if len(c.Ports) > 0 && c.Name != "exporter" && (c.LivenessProbe == nil || c.StartupProbe == nil) {
					t.Errorf("%s has no probes", o.GetName())
				}
			}
		}
		for _, o := range r.ofKind("Service") {
			service := convert[corev1.Service](t, o.Object)
			pods := r.selected(t, labels.SelectorFromSet(service.Spec.Selector))
			if len(pods) == 0 {
				t.Errorf("Service %s selects no pod", o.GetName())
			}
			for _, port := range service.Spec.Ports {
				for _, pod := range pods {
					if portIn(pod, port.TargetPort.StrVal) == 0 {
						t.Errorf("Service %s: no port %s", o.GetName(), &port.TargetPort)
					}
				}
			}
		}
	})
}

func portOf(c corev1.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// portIn returns the port of that name of any of a pod's containers.
func portIn(pod *corev1.PodTemplateSpec, name string) (port int32) {
	for _, c := range pod.Spec.Containers {
		port = max(port, portOf(c, name))
	}
	return port
}

// selected returns the pods that a selector selects.
func (r *rendering) selected(t testing.TB, selector labels.Selector) (pods []*corev1.PodTemplateSpec) {
	for _, o := range r.objects {
		if pod := podOf(t, o); pod != nil && selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// What selects pods selects its own and nobody else's, and so do budgets and monitors.
func TestSelectors(t *testing.T) {
	eachSet(t, func(t *testing.T, _ string, r *rendering) {
		for _, o := range r.objects {
			switch o.GetKind() {
			case "StatefulSet", "Deployment", "PodDisruptionBudget", "ServiceMonitor":
			default:
				continue
			}
			raw, _, err := unstructured.NestedMap(o.Object, "spec", "selector")
			if err != nil {
				t.Fatal(err)
			}
			selector, err := metav1.LabelSelectorAsSelector(convert[metav1.LabelSelector](t, raw))
			if err != nil {
				t.Fatal(err)
			}
			if o.GetKind() == "ServiceMonitor" {
				if !slices.ContainsFunc(r.ofKind("Service"),
					func(s *unstructured.Unstructured) bool { return selector.Matches(labels.Set(s.GetLabels())) }) {
					t.Errorf("ServiceMonitor %s finds no Service", o.GetName())
				}
				continue
			}
			if pods := r.selected(t, selector); len(pods) != 1 {
				t.Errorf("%s %s selects the pods of %d objects", o.GetKind(), o.GetName(), len(pods))
			}
			if own := podOf(t, o); own != nil && !selector.Matches(labels.Set(own.Labels)) {
				t.Errorf("%s %s does not select its own pods", o.GetKind(), o.GetName())
			}
		}
		for _, o := range r.ofKind("HorizontalPodAutoscaler") {
			name, _, _ := unstructured.NestedString(o.Object, "spec", "scaleTargetRef", "name")
			if _, fixed, _ := unstructured.NestedFieldNoCopy(r.find(t, "Deployment", name).Object, "spec",
				"replicas"); fixed {
				t.Errorf("%s has a number of pods of its own: an upgrade would undo the scaling", name)
			}
		}
	})
}

// No port of any pod is open to everybody, unless policies are off: there is a policy that selects the pod, and the
// ports let in exist.
func TestNetworkPolicies(t *testing.T) {
	eachSet(t, func(t *testing.T, name string, r *rendering) {
		policies := r.ofKind("NetworkPolicy")
		if (name == "no-policies") != (len(policies) == 0) {
			t.Fatalf("%d policies", len(policies))
		}
		if len(policies) == 0 {
			return
		}
		letIn := map[string]bool{} // component and port
		for _, o := range policies {
			policy := convert[networkingv1.NetworkPolicy](t, o.Object)
			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
				t.Errorf("%s is not about what comes in", o.GetName())
			}
			for _, pod := range r.selected(t, selector) {
				pod.Labels["covered"] = "yes"
				for _, rule := range policy.Spec.Ingress {
					if len(rule.From) == 0 || len(rule.Ports) == 0 {
						t.Errorf("%s lets everybody in, or to every port", o.GetName())
					}
					for _, port := range rule.Ports {
						if portIn(pod, port.Port.StrVal) == 0 {
							t.Errorf("%s: %s has no port %s", o.GetName(), pod.Labels["app.kubernetes.io/component"],
								port.Port)
						}
						letIn[pod.Labels["app.kubernetes.io/component"]+" "+port.Port.StrVal] = true
					}
				}
			}
		}
		all, err := metav1.LabelSelectorAsSelector(
			&convert[networkingv1.NetworkPolicy](t, r.find(t, "NetworkPolicy", "dbqpg").Object).Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range r.objects {
			if pod := podOf(t, o); pod != nil && !all.Matches(labels.Set(pod.Labels)) {
				t.Errorf("no policy covers %s", o.GetName())
			}
		}
		needed := []string{"coordinator https", "coordinator raft"}
		if name == "run" {
			needed = []string{"learner nats"}
		}
		for _, needed := range needed {
			if !letIn[needed] {
				t.Errorf("nobody reaches %s", needed)
			}
		}
		if letIn["nats monitor"] {
			t.Error("others reach the NATS server's monitor")
		}
	})
}

// A worker has the GPUs that it was given, and none on a processor; its image is of the same kind.
func TestDevices(t *testing.T) {
	eachSet(t, func(t *testing.T, name string, r *rendering) {
		kind := "Deployment"
		if name == "run" {
			kind = "Job"
		}
		c := podOf(t, r.find(t, kind, "dbqpg-learner")).Spec.Containers[0]
		gpus := c.Resources.Limits["nvidia.com/gpu"]
		if name == "shared-volume" {
			gpus = c.Resources.Limits["nvidia.com/mig-1g.10gb"]
		}
		onCPU := slices.Contains(c.Args, "--device=cpu")
		byDigest := strings.Contains(c.Image, "@sha256:")
		if onCPU != gpus.IsZero() || onCPU != (strings.HasSuffix(c.Image, "-cpu") || byDigest) ||
			onCPU != (name == "cpu" || name == "kind" || name == "platform") {
			t.Errorf("%s GPUs, %s, %v", &gpus, c.Image, c.Args)
		}
		if memory := c.Resources.Limits.Memory(); memory.IsZero() {
			t.Error("the GPU has displaced the limit of memory")
		}
	})
}
