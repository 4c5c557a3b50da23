//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
)

// serverOfOnesOwn is a NATS server with what the documentation says that it needs, from the Secret that it has one
// make.
const serverOfOnesOwn = `
apiVersion: v1
kind: ConfigMap
metadata: {name: nats}
data:
  nats-server.conf: |
    max_payload: 8MB
    jetstream { max_mem: 256MB, max_file: 64MB, store_dir: /tmp }
    tls { cert_file: /etc/nats/tls.pem, key_file: /etc/nats/tls-key.pem, ca_file: /etc/nats/ca.pem, verify_and_map: true }
    include accounts.conf
---
apiVersion: v1
kind: Pod
metadata: {name: nats-0, labels: {app: nats}}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: nats
      image: docker.io/library/nats:2.15.2-alpine
      command: [nats-server]
      args: [--config, /etc/nats/nats-server.conf]
      ports: [{name: nats, containerPort: 4222}]
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: configuration, mountPath: /etc/nats}, {name: data, mountPath: /tmp}]
  volumes:
    - name: configuration
      projected:
        defaultMode: 0440
        sources:
          - secret:
              name: dbqpg-credentials-nats
              items:
                - {key: ca.pem, path: ca.pem}
                - {key: tls.pem, path: tls.pem}
                - {key: tls-key.pem, path: tls-key.pem}
                - {key: accounts.conf, path: accounts.conf}
          - configMap: {name: nats}
    - {name: data, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata: {name: nats}
spec:
  selector: {app: nats}
  ports: [{port: 4222}]
`

// A server that is not the chart's, with the Secret that the chart's Job makes for it.
func TestOwnNATS(t *testing.T) {
	u := newUser(t)
	u.values("kind", `
nats: {external: "tls://nats.training.svc:4222"}
credentials: {hosts: [nats=nats.training.svc]}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 2, batch: 1000}}]`)
	u.kubectl("apply", "--filename", u.file(serverOfOnesOwn))
	u.run("install", "install")
	u.coordinator("watch", "first")
	if runs := u.runs("first"); states(runs) != "done" {
		t.Errorf("in the end: %v", runs)
	}
	if servers := u.pods("nats"); len(servers) != 0 {
		t.Errorf("the chart has servers too: %d", len(servers))
	}
	u.helm("uninstall", "dbqpg", "--wait")
}

// Three servers of NATS's official chart in place of this chart's own.
func TestOfficialNATS(t *testing.T) {
	chart := filepath.Join("..", "..", "charts", "dbqpg")
	if found, err := filepath.Glob(filepath.Join(chart, "charts", "nats-*.tgz")); err != nil || len(found) == 0 {
		t.Skip("NATS's official chart is not in the checkout: run make chart first")
	}
	preset, err := os.ReadFile(filepath.Join(chart, "presets", "nats-official.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	small, err := chartutil.ReadValues([]byte(`
natschart: {container: {merge: {resources: {requests: {cpu: 50m, memory: 128Mi}}}}}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 2, batch: 1000}}]`))
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t)
	u.values("kind", string(preset), small)
	u.run("install", "install")
	u.untilReady()
	u.coordinator("watch", "first")
	if runs := u.runs("first"); states(runs) != "done" {
		t.Errorf("in the end: %v", runs)
	}
	if replicas := u.kubectl("get", "statefulset", "dbqpg-nats", "--output",
		"jsonpath={.status.readyReplicas} {.metadata.labels.helm\\.sh/chart}"); !strings.HasPrefix(replicas,
		"3 natschart-") {
		t.Errorf("the servers are %s", replicas)
	}
	u.helm("uninstall", "dbqpg", "--wait")
}
