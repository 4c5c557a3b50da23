//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
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

// Three servers of NATS's official chart, a release of its own.
func TestOfficialNATS(t *testing.T) {
	chart := os.Getenv("NATS_CHART")
	if chart == "" {
		t.Skip("NATS_CHART is not set: the directory helm/charts/nats of a checkout of github.com/nats-io/k8s")
	}
	u := newUser(t)
	u.values("kind", `
nats: {external: "tls://nats.training.svc:4222"}
credentials: {hosts: [nats=nats.training.svc, "nats=*.nats-headless"]}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 2, batch: 1000}}]`)
	u.run("install", "install")
	u.helm("install", "nats", chart, "--values", filepath.Join(u.directory, "charts", "nats.yaml"),
		"--set", "container.merge.resources.requests.cpu=50m", "--wait")
	u.untilReady()
	u.coordinator("watch", "first")
	if runs := u.runs("first"); states(runs) != "done" {
		t.Errorf("in the end: %v", runs)
	}
	u.helm("uninstall", "nats", "--wait")
	u.helm("uninstall", "dbqpg", "--wait")
}
