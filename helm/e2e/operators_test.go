//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

const withOperators = `
credentials: {mode: cert-manager, issuer: {name: authority}}
metrics:
  {serviceMonitor: {enabled: true, labels: {release: prometheus}}, dashboard: {enabled: true}, rules: {enabled: true}}
actors:
  pools:
    standard: {replicas: null, autoscaling: {type: keda, min: 1, max: 3}}
    other: {replicas: null, slots: 1, resources: {requests: {cpu: 50m}}, autoscaling: {type: cpu, min: 1, max: 2}}
learner: {autoscaling: {enabled: true, max: 1}}
experiments: []`

// What the chart makes for operators is taken by the API server with their definitions, rules in CEL among them, and no
// field is dropped. In place of cert-manager somebody makes the Secrets that the Certificates ask for; then all pods
// come up.
func TestOperators(t *testing.T) {
	u := newUser(t)
	definitions, err := filepath.Abs(filepath.Join("..", "testdata", "crds"))
	if err != nil {
		t.Fatal(err)
	}
	u.kubectl("apply", "--filename", definitions)
	u.kubectl("wait", "--for=condition=Established", "crd", "--all")
	u.values("kind", withOperators)
	u.shell("helm template dbqpg charts/dbqpg --no-hooks --kube-version 1.34.1 -n training --values my-values.yaml" +
		" | kubectl -n training apply --dry-run=server --validate=strict --filename -")

	u.helm("install", "dbqpg", "charts/dbqpg", "--values", "my-values.yaml")
	made := u.kubectl("get", "certificates,servicemonitors,prometheusrules,scaledobjects,hpa,configmaps", "--output",
		"name")
	for _, name := range []string{
		"certificate.cert-manager.io/dbqpg-coordinator", "certificate.cert-manager.io/dbqpg-learner",
		"certificate.cert-manager.io/dbqpg-actor",
		"certificate.cert-manager.io/dbqpg-operator", "certificate.cert-manager.io/dbqpg-nats",
		"servicemonitor.monitoring.coreos.com/dbqpg-coordinator", "servicemonitor.monitoring.coreos.com/dbqpg-learner",
		"servicemonitor.monitoring.coreos.com/dbqpg-actor", "scaledobject.keda.sh/dbqpg-actor-standard",
		"scaledobject.keda.sh/dbqpg-learner", "prometheusrule.monitoring.coreos.com/dbqpg",
		"horizontalpodautoscaler.autoscaling/dbqpg-actor-other", "configmap/dbqpg-dashboard",
	} {
		if !strings.Contains(made, name+"\n") {
			t.Errorf("there is no %s among:\n%s", name, made)
		}
	}
	if refusal, err := u.try("kubectl", "patch", "certificate", "dbqpg-nats", "--namespace", namespace, "--type=merge",
		"--patch",
		`{"spec": {"privateKey": {"algorithm": "none"}}}`); err == nil {
		t.Errorf("a definition is not enforced: %s", refusal)
	}

	// The certificates that the Job has made are valid, too, and of one authority.
	for _, member := range []string{"coordinator", "learner", "actor", "operator", "nats"} {
		u.shell(fmt.Sprintf(`
for file in ca.pem tls.pem tls-key.pem; do
    kubectl -n training get secret dbqpg-credentials-%[1]s \
        -o go-template="{{index .data \"$file\" | base64decode}}" > $file
done
kubectl -n training create secret generic dbqpg-%[1]s-tls \
    --from-file=ca.crt=ca.pem --from-file=tls.crt=tls.pem --from-file=tls.key=tls-key.pem`, member))
	}
	u.untilReady()
	u.helm("test", "dbqpg")
	u.helm("uninstall", "dbqpg", "--wait")
}
