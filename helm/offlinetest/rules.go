package offlinetest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// network is all that decides who may connect to whom.
type network struct {
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	policies   []*networkingv1.NetworkPolicy
}

// rules are those of the packet filter, in nft's language. A pod that a policy selects is reached by those alone whom a
// policy lets in; any other by everybody. The node reaches all, since what it sends is not forwarded.
func (n network) rules() (string, error) {
	var chains, jumps strings.Builder
	for _, pod := range n.pods {
		if !hasAddress(pod) {
			continue
		}
		selected, accepts := false, []string(nil)
		for _, policy := range n.policies {
			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			if err != nil {
				return "", err
			}
			if policy.Namespace != pod.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			if slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
				return "", fmt.Errorf("offline: %s/%s is about what goes out, which this cluster does not hold to",
					policy.Namespace, policy.Name)
			}
			selected = true
			for _, rule := range policy.Spec.Ingress {
				accept, err := n.accept(policy.Namespace, rule, pod)
				if err != nil {
					return "", fmt.Errorf("offline: %s/%s: %w", policy.Namespace, policy.Name, err)
				}
				accepts = append(accepts, accept...)
			}
		}
		if selected {
			chain := "to_" + strings.ReplaceAll(pod.Status.PodIP, ".", "_")
			fmt.Fprintf(&chains, "chain %s { # %s/%s\n%sdrop\n}\n", chain, pod.Namespace, pod.Name,
				strings.Join(accepts, ""))
			fmt.Fprintf(&jumps, "ip daddr %s jump %s\n", pod.Status.PodIP, chain)
		}
	}
	return fmt.Sprintf("table ip policies\ndelete table ip policies\ntable ip policies {\n%schain forward {\n"+
			"type filter hook forward priority filter;\nct state established,related accept\n%s}\n}\n", &chains,
			&jumps),
		nil
}

// accept returns the rules that let in what one rule of a policy does.
func (n network) accept(namespace string, rule networkingv1.NetworkPolicyIngressRule, to *corev1.Pod) (rules []string,
	err error) {
	ports := []string{""}
	if len(rule.Ports) > 0 {
		ports = nil
	}
	for _, port := range rule.Ports {
		number, err := numberOf(port, to)
		if err != nil {
			return nil, err
		}
		ports = append(ports, fmt.Sprintf("tcp dport %d ", number))
	}
	sources := []string{""}
	if len(rule.From) > 0 {
		if sources, err = n.sources(namespace, rule.From); err != nil {
			return nil, err
		}
	}
	for _, source := range sources {
		for _, port := range ports {
			rules = append(rules, source+port+"accept\n")
		}
	}
	return rules, nil
}

// sources returns the conditions that one of a rule's peers meets.
func (n network) sources(namespace string, peers []networkingv1.NetworkPolicyPeer) (conditions []string, err error) {
	for _, peer := range peers {
		if block := peer.IPBlock; block != nil {
			if _, err := netip.ParsePrefix(block.CIDR); err != nil || len(block.Except) > 0 {
				return nil, fmt.Errorf("a block of addresses that this cluster does not know: %v", block)
			}
			conditions = append(conditions, fmt.Sprintf("ip saddr %s ", block.CIDR))
			continue
		}
		spaces, err := n.spaces(namespace, peer.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		selector := labels.Everything()
		if peer.PodSelector != nil {
			if selector, err = metav1.LabelSelectorAsSelector(peer.PodSelector); err != nil {
				return nil, err
			}
		}
		var addresses []string
		for _, pod := range n.pods {
			if hasAddress(pod) && spaces[pod.Namespace] && selector.Matches(labels.Set(pod.Labels)) {
				addresses = append(addresses, pod.Status.PodIP)
			}
		}
		if len(addresses) > 0 {
			slices.SortFunc(addresses, cmp.Compare[string])
			conditions = append(conditions, fmt.Sprintf("ip saddr { %s } ", strings.Join(addresses, ", ")))
		}
	}
	return conditions, nil
}

// spaces are the namespaces that a selector selects; without one, the policy's own.
func (n network) spaces(own string, selector *metav1.LabelSelector) (map[string]bool, error) {
	if selector == nil {
		return map[string]bool{own: true}, nil
	}
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	selected := map[string]bool{}
	for _, namespace := range n.namespaces {
		selected[namespace.Name] = matches.Matches(labels.Set(namespace.Labels))
	}
	return selected, nil
}

// numberOf returns the number of a policy's port at a pod; 0, which nobody listens at, if the pod has none of that
// name.
func numberOf(port networkingv1.NetworkPolicyPort, pod *corev1.Pod) (int32, error) {
	if port.EndPort != nil || port.Protocol != nil && *port.Protocol != corev1.ProtocolTCP || port.Port == nil {
		return 0, fmt.Errorf("a port that this cluster does not know: %v", port)
	}
	if port.Port.Type == intstr.Int {
		return port.Port.IntVal, nil
	}
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			if p.Name == port.Port.StrVal {
				return p.ContainerPort, nil
			}
		}
	}
	return 0, nil
}

func hasAddress(pod *corev1.Pod) bool {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !over
}
