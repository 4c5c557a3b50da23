//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/helm/internal/progresstest"
)

const onTheWay = `
actors: {pools: {standard: {replicas: 1}}}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 30, batch: 2000}}]
`

// What Kubernetes does not change in place is changed by the documented commands while a run is under way: the
// coordinators' volumes, one NATS server to three, and the volume of checkpoints to a bucket. The run ends with the
// bits of one process alone.
func TestPaths(t *testing.T) {
	needsOwn(t, "a server of buckets on the node")
	u := newUser(t)
	u.install("kind", onTheWay, "--wait")
	u.untilSteps("first", 2*batch)

	values := onTheWay + "coordinator: {storage: {size: 300Mi}}\n"
	u.values("kind", values)
	u.run("operate", "storage")
	u.untilReady()
	values += "nats: {replicas: 3}\n"
	u.values("kind", values)
	u.run("operate", "nats")
	u.untilReady()
	reached := u.steps("first")
	u.untilSteps("first", min(reached+2*batch, iterations*batch))

	u.extra = []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret-key"}
	u.run("values", "keys")
	objects := filepath.Join(u.serveBuckets("key", "secret-key"), "bucket")
	if err := os.Mkdir(objects, 0o755); err != nil {
		t.Fatal(err)
	}
	// Of the client for buckets there is this: the server keeps objects as files.
	client := fmt.Sprintf("#!/bin/sh\nset -eu\n[ \"$*\" = 's3 cp --recursive checkpoints s3://bucket/runs' "+
		"]\ncp -r checkpoints %s/runs\n", objects)
	if err := os.WriteFile(filepath.Join(u.directory, "aws"), []byte(client), 0o755); err != nil {
		t.Fatal(err)
	}
	u.extra = append(u.extra, "PATH="+u.directory+":"+programs+":"+os.Getenv("PATH"))
	u.values("kind", values+bucket)
	u.run("operate", "checkpoints")
	u.coordinator("watch", "first")
	tables, err := filepath.Glob(filepath.Join(objects, "runs", "first", "Swimmer-v2", "*", "epoch-*", "progress.csv"))
	if err != nil || len(tables) == 0 {
		t.Fatal("there is no table in the bucket", err)
	}
	if err := progresstest.Compare(iterations, tables[len(tables)-1], alone(t)); err != nil {
		t.Error(err)
	}
	u.helm("uninstall", "dbqpg", "--wait")
}

// A token opens the coordinator's pages, by the Service that is for them.
func TestToken(t *testing.T) {
	u := newUser(t)
	token := u.run("operate", "token")
	u.install("kind", "{coordinator: {tokensSecret: dbqpg-tokens}, dashboard: {service: {enabled: true}}}", "--wait")
	if err := os.WriteFile(filepath.Join(u.directory, "token"), []byte(token[:strings.Index(token, "\n")+1]),
		0o600); err != nil {
		t.Fatal(err)
	}
	said := u.shell(`kubectl -n training get secret dbqpg-credentials-observer \
    -o go-template='{{index .data "ca.pem" | base64decode}}' > ca.pem
kubectl -n training port-forward service/dbqpg-dashboard 7443:443 > /dev/null &
until coordinator nodes --coordinator https://localhost:7443 --token-file token --ca ca.pem; do sleep 0.1; done`)
	if !strings.Contains(said, "dbqpg-coordinator-0") {
		t.Error(said)
	}
	u.helm("uninstall", "dbqpg", "--wait")
}
