//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// imagesOf are the images that the preset for strict platforms names, by the place of their digest in the values.
var imagesOf = map[string][]string{
	"ghcr.io/dbqpg/coordinator:0.1.0":                     {"coordinator", "image"},
	"ghcr.io/dbqpg/learner:0.1.0-cpu":                     {"learner", "image"},
	"ghcr.io/dbqpg/actor:0.1.0":                           {"actors", "common", "image"},
	"docker.io/library/nats:2.15.2-alpine":                {"nats", "image"},
	"docker.io/natsio/nats-server-config-reloader:0.23.0": {"nats", "reloader", "image"},
	"docker.io/natsio/prometheus-nats-exporter:0.20.1":    {"nats", "exporter", "image"},
}

// The preset for strict platforms, with the digests of the images here, and with the user and group that OpenShift
// would give the namespace. It is rendered and applied as Argo CD does, twice, and trains with a bucket.
func TestPlatform(t *testing.T) {
	needsOwn(t, "images by digest, and a server of buckets on the node")
	u := newUser(t)
	if err := os.Mkdir(filepath.Join(u.serveBuckets("key", "secret-key"), "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	u.extra = []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret-key"}
	u.run("values", "keys")
	digests := map[string]any{}
	for image, place := range imagesOf {
		digest, err := own.Mirror(u.ctx, image, "mirror.example")
		if err != nil {
			t.Fatal(err)
		}
		value := map[string]any{"digest": digest}
		for i := len(place) - 1; i > 0; i-- {
			value = map[string]any{place[i]: value}
		}
		overlay(digests, map[string]any{place[0]: value})
	}
	u.values("platform", `
imagePullSecrets: []
common: {podSecurityContext: {runAsUser: 1000650000, runAsGroup: 1000650000, fsGroup: 1000650000}}
coordinator: {replicas: 1}
nats: {replicas: 1, resources: {requests: {cpu: 50m, memory: 128Mi}}, exporter: {enabled: true}}
learner: {resources: {requests: {cpu: 250m, memory: 512Mi}}}
actors: {common: {slots: 1, resources: {requests: {cpu: 250m, memory: 128Mi}}}, pools: {standard: {replicas: 1}}}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 2, batch: 1000}}]
`+bucket, digests)
	const apply = "helm template dbqpg charts/dbqpg --namespace training --kube-version 1.34.1 --skip-tests --values " +
		"my-values.yaml > rendered.yaml; kubectl -n training apply --filename rendered.yaml"
	u.shell(apply)
	u.untilReady()
	u.coordinator("watch", "first")
	u.shell("mv rendered.yaml before.yaml; " + apply + "; cmp rendered.yaml before.yaml")
	u.untilReady()
	for component, container := range map[string]string{
		"coordinator": "coordinator", "learner": "learner", "actor": "actor", "nats": "nats",
	} {
		pod := u.pods(component)[0]
		if status := pod.Status.ContainerStatuses[0]; status.RestartCount > 0 {
			t.Errorf("%s has been restarted: %v", container, status)
		}
	}
	u.shell("kubectl -n training delete --filename rendered.yaml")
}
