package offlinetest

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pod(namespace, name, address string, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: ports}}},
		Status:     corev1.PodStatus{PodIP: address},
	}
}

func selector(app string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// Who is selected by a policy is reached by those alone whom policies let in, at the ports that they name.
func TestRules(t *testing.T) {
	https, own, other := intstr.FromString("https"), selector("client"), metav1.LabelSelector{}
	n := network{
		pods: []*corev1.Pod{
			pod("a", "server", "198.18.0.1", corev1.ContainerPort{Name: "https", ContainerPort: 7070}),
			pod("a", "client", "198.18.0.2"), pod("b", "client", "198.18.0.3"), pod("b", "server", "198.18.0.4"),
			pod("a", "starting", ""),
		},
		namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"x": "y"}}}},
		policies: []*networkingv1.NetworkPolicy{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "nobody"},
				Spec: networkingv1.NetworkPolicySpec{PodSelector: selector("server")}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "clients"}, Spec: networkingv1.NetworkPolicySpec{
				PodSelector: selector("server"),
				Ingress: []networkingv1.NetworkPolicyIngressRule{
					{Ports: []networkingv1.NetworkPolicyPort{{Port: &https}},
						From: []networkingv1.NetworkPolicyPeer{{PodSelector: &own}}},
					{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &other},
						{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}}},
				},
			}},
		},
	}
	rules, err := n.rules()
	if err != nil {
		t.Fatal(err)
	}
	want := `chain to_198_18_0_1 { # a/server
ip saddr { 198.18.0.2 } tcp dport 7070 accept
ip saddr { 198.18.0.1, 198.18.0.2, 198.18.0.3, 198.18.0.4 } accept
ip saddr 192.0.2.0/24 accept
drop
}
chain forward {
type filter hook forward priority filter;
ct state established,related accept
ip daddr 198.18.0.1 jump to_198_18_0_1
}`
	if !strings.Contains(rules, want) {
		t.Errorf("%s\nwithout\n%s", rules, want)
	}
	if _, err := exec.LookPath("nft"); err == nil {
		check := exec.Command("nft", "--check", "--file", "-")
		check.Stdin = strings.NewReader(rules)
		if output, err := check.CombinedOutput(); err != nil && !strings.Contains(string(output), "not permitted") {
			t.Errorf("nft: %v\n%s", err, output)
		}
	}
	n.policies[1].Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	if _, err := n.rules(); err == nil {
		t.Error("what goes out is not looked at, and this was not said")
	}
}
