//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/helm/internal/progresstest"
)

// bucket are the values for the server of serveBuckets.
const bucket = "checkpoints: {store: s3, s3: {url: s3://bucket/runs, region: us-east-1, endpoint: " +
	"'http://198.18.255.1:7480', existingSecret: s3-keys}}"

// Two workers keep checkpoints in a bucket, as documented. While it is not there, they say so. Then they train two runs
// at the same time, one of them is lost in the middle, and the runs end with the bits of one process alone.
func TestBucket(t *testing.T) {
	needsOwn(t, "a server of buckets on the node")
	u := newUser(t)
	buckets := u.serveBuckets("key", "secret-key")
	u.extra = []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret-key"}
	u.run("values", "keys")
	u.install("kind", bucket+`
learner: {replicas: 2}
actors: {pools: {standard: {replicas: 0}}}
experiments: [{name: pair, tasks: Swimmer-v2, estimators: mc, seeds: 1-2, overrides: {iterations: 30, batch: 2000}}]`)

	u.untilRestarted("learner", 1)
	last := u.lastWords("learner")
	if !strings.Contains(last, "there is no bucket bucket") ||
		!strings.Contains(row(t, "restarts at once")[2], "its bucket does not exist") {
		t.Errorf("the last line of a worker without a bucket: %s", last)
	}
	if err := os.Mkdir(filepath.Join(buckets, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	u.untilReady()

	u.scaleActors(2)
	u.until(func() string {
		for _, r := range u.runs("pair") {
			if r.State != "running" || r.Steps < 2*batch {
				return fmt.Sprintf("%s is %s at step %d", r.Name, r.State, r.Steps)
			}
		}
		return ""
	})
	taken := u.runs("pair")[0]
	u.kubectl("delete", "pod", taken.Learner, "--grace-period=0", "--force")
	u.coordinator("watch", "pair")
	runs := u.runs("pair")
	if states(runs) != "done" || runs[0].Epoch <= taken.Epoch {
		t.Errorf("%v was lost in the middle; in the end: %v", taken, runs)
	}
	tables, err := filepath.Glob(filepath.Join(buckets, "bucket", "runs", "pair", "Swimmer-v2", "*-s1", "epoch-*",
		"progress.csv"))
	if err != nil || len(tables) == 0 {
		t.Fatal("there is no table in the bucket", err)
	}
	if err := progresstest.Compare(iterations, tables[len(tables)-1], alone(t, "--estimator", "mc")); err != nil {
		t.Error(err)
	}
	u.helm("uninstall", "dbqpg", "--wait")
}

// serveBuckets starts an S3 server on the node, on port 7480, and returns the directory of its buckets.
func (u *user) serveBuckets(key, secret string) (directory string) {
	u.t.Helper()
	directory = u.t.TempDir()
	server := exec.CommandContext(u.ctx, filepath.Join("..", "..", ".deps", "bin", "versitygw"), "--port",
		"198.18.255.1:7480", "posix", directory)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+key, "ROOT_SECRET_ACCESS_KEY="+secret)
	if err := server.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	return directory
}

// untilRestarted waits until all containers of a component have been restarted as often.
func (u *user) untilRestarted(component string, times int32) {
	u.t.Helper()
	u.until(func() string {
		pods := u.pods(component)
		if len(pods) == 0 {
			return component + " has no pods yet"
		}
		for _, pod := range pods {
			if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount < times {
				return pod.Name + " is not restarted"
			}
		}
		return ""
	})
}

// lastWords returns the last line of what a component's first pod said before it was restarted.
func (u *user) lastWords(component string) (line string) {
	u.t.Helper()
	u.until(func() string {
		said := strings.TrimSpace(u.kubectl("logs", "--previous", u.pods(component)[0].Name))
		line = said[strings.LastIndex(said, "\n")+1:]
		if strings.HasPrefix(line, "unable to retrieve container logs") { // which has just been removed
			return line
		}
		return ""
	})
	return line
}
