//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

const withOperators = `
credentials: {mode: cert-manager, issuer: {name: authority}}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}, dashboard: {enabled: true}}
actors:
  pools:
    standard: {replicas: null, autoscaling: {type: keda, min: 1, max: 3}}
    other: {replicas: null, slots: 1, resources: {requests: {cpu: 50m}}, autoscaling: {type: cpu, min: 1, max: 2}}
experiment: null`

// What the chart makes for operators is taken by the API server with their definitions, rules in CEL among them, and no field is
// dropped. In place of cert-manager somebody makes the Secrets that the Certificates ask for; then all pods come up.
func TestOperators(t *testing.T) {
	u := newUser(t, "operators")
	u.checkOut()
	u.kubectl("apply", "--filename", "helm/testdata/crds")
	u.kubectl("wait", "--for=condition=Established", "crd", "--all")
	values := u.file(withOperators)
	u.shell("helm template dbqpg charts/dbqpg --no-hooks --kube-version 1.34.1 -n operators --values helm/kind.yaml --values " + values +
		" | kubectl -n operators apply --dry-run=server --validate=strict --filename -")

	u.helm("install", "dbqpg", "charts/dbqpg", "--values", "helm/kind.yaml", "--values", values)
	made := u.kubectl("get", "certificates,servicemonitors,scaledobjects,hpa,configmaps", "--output", "name")
	for _, name := range []string{
		"certificate.cert-manager.io/dbqpg-coordinator", "certificate.cert-manager.io/dbqpg-learner", "certificate.cert-manager.io/dbqpg-actor",
		"certificate.cert-manager.io/dbqpg-operator", "certificate.cert-manager.io/dbqpg-nats",
		"servicemonitor.monitoring.coreos.com/dbqpg-coordinator", "servicemonitor.monitoring.coreos.com/dbqpg-learner",
		"servicemonitor.monitoring.coreos.com/dbqpg-actor", "scaledobject.keda.sh/dbqpg-actor-standard",
		"horizontalpodautoscaler.autoscaling/dbqpg-actor-other", "configmap/dbqpg-dashboard",
	} {
		if !strings.Contains(made, name+"\n") {
			t.Errorf("there is no %s among:\n%s", name, made)
		}
	}
	if refusal, err := u.try("kubectl", "patch", "certificate", "dbqpg-nats", "--namespace", u.namespace, "--type=merge", "--patch",
		`{"spec": {"privateKey": {"algorithm": "none"}}}`); err == nil {
		t.Errorf("a definition is not enforced: %s", refusal)
	}

	u.follow("Credentials", "credentials create")
	for _, member := range []string{"coordinator", "learner", "actor", "operator", "nats"} {
		u.kubectl("create", "secret", "generic", fmt.Sprintf("dbqpg-%s-tls", member),
			fmt.Sprintf("--from-file=ca.crt=credentials/%s/ca.pem", member),
			fmt.Sprintf("--from-file=tls.crt=credentials/%s/tls.pem", member), fmt.Sprintf("--from-file=tls.key=credentials/%s/tls-key.pem", member))
	}
	u.untilReady()
	u.helm("test", "dbqpg")
	u.helm("uninstall", "dbqpg", "--wait")
}
