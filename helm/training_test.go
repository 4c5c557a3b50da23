package helm

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dbqpg/dbqpg/helm/internal/progresstest"
	"github.com/dbqpg/dbqpg/internal/credentials/credentialstest"
)

const experiment = `
coordinator: {replicas: 3}
nats: {replicas: 3}
actors: {pools: {standard: {replicas: 2}}}
dashboard: {player: {enabled: true}}
checkpoints: {volume: {accessMode: ReadWriteMany}}
experiments: [{name: first, tasks: Swimmer-v2, overrides: {iterations: 10, batch: 1000}}]`

// What the manifests say trains Swimmer-v2: three coordinators, a cluster of three NATS servers with the chart's own
// configuration and TLS, a worker, and two actors. Meanwhile the actors are drained and others come, and between those
// all servers and coordinators are replaced, one after the other. The result is the same bits as that of one process on
// one machine. A coordinator's pages have its curves, and pass viewers on to the pod that plays its policy.
func TestTraining(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	t.Parallel()
	c := newCluster(t, render(t, trainingValues(t)))
	c.makeSecrets()
	var nodes []*process
	for _, workload := range []string{"dbqpg-nats", "dbqpg-coordinator"} {
		nodes = append(nodes, c.startAll("StatefulSet", workload)...)
	}
	worker := c.startAll("Deployment", "dbqpg-learner")[0]
	for _, p := range append(nodes, worker) {
		p.ready()
	}
	if status := c.runOnce("Job", "dbqpg-submit").Wait(); status != 0 {
		t.Fatalf("the experiment is not submitted: status %d", status)
	}
	actors := c.startAll("Deployment", "dbqpg-actor-standard") // from 0 to 2 while the run waits for some
	for _, p := range actors {
		p.ready()
	}
	worker.Expect(`"iteration done","iteration":2,`)
	for _, p := range actors { // their nodes are drained, so that the run cannot end meanwhile
		p.drain()
	}
	for i, p := range nodes { // as an upgrade replaces them: one at a time, the next when this one is ready
		kind := c.r.find(t, "StatefulSet", p.pod[:strings.LastIndex(p.pod, "-")])
		p.drain()
		nodes[i] = c.startPod(kind, p.pod)
		nodes[i].ready()
	}
	for _, p := range c.startAll("Deployment", "dbqpg-actor-standard") {
		p.ready()
	}
	c.ask("watch", "first")
	if shown := c.ask("list", "first"); !regexp.MustCompile(
		`first/Swimmer-v2/npg-uapg-s1 +done +10/10 +11000 `).MatchString(shown) {
		t.Errorf("after the run:\n%s", shown)
	}
	if status := c.runOnce("Pod", "dbqpg-test").Wait(); status != 0 {
		t.Errorf("helm test: status %d", status)
	}
	player := c.startAll("Deployment", "dbqpg-player")[0]
	player.ready()
	for path, want := range map[string]string{
		"data/about":                                "200 .*\"files\":true,\"live\":true",
		"data/curves?q=":                            "200 .*\"runs\":1,",
		"live/?run=first/Swimmer-v2/npg-uapg-s1":    "426 .*Upgrade", // it would be played over a WebSocket
		"live/?run=first/Swimmer-v2/npg-uapg-s1234": "404 there is no such run",
	} {
		if got := c.page(path); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
	player.drain()
	worker.drain()
	directory, undisturbed := filepath.Join(c.volumes, "dbqpg-checkpoints", "first", "Swimmer-v2", "npg-uapg-s1",
		"epoch-1"), alone(t)
	if err := progresstest.Compare(10, filepath.Join(directory, "progress.csv"),
		filepath.Join(undisturbed, "progress.csv")); err != nil {
		t.Error(err)
	}
	if err := progresstest.CompareStates(10, directory, undisturbed); err != nil {
		t.Error(err)
	}
	for _, p := range nodes {
		p.drain()
	}
}

// trainingValues are those of the preset for one small machine, with several servers and a short experiment.
func trainingValues(t testing.TB) map[string]any {
	t.Helper()
	values := presets(t)["kind"]
	for key, value := range parse(t, experiment) {
		merge(values, key, value)
	}
	return values
}

// merge puts a value into others, maps into maps.
func merge(into map[string]any, key string, value any) {
	old, ok := into[key].(map[string]any)
	fields, also := value.(map[string]any)
	if !ok || !also {
		into[key] = value
		return
	}
	for key, value := range fields {
		merge(old, key, value)
	}
}

// makeSecrets runs the Job before the installation, with a stand-in for Kubernetes' API.
func (c *cluster) makeSecrets() {
	c.t.Helper()
	api := credentialstest.NewSecrets(c.t)
	job := podOf(c.t, c.r.find(c.t, "Job", "dbqpg-credentials-setup"))
	container := job.Spec.Containers[0]
	// where this machine's is not
	container.Args = append(container.Args, "--service-account=/var/run/secrets/kubernetes.io/serviceaccount")
	if err := os.CopyFS(filepath.Join(c.volumes, "dbqpg-credentials-0-token"),
		os.DirFS(api.ServiceAccount())); err != nil {
		c.t.Fatal(err)
	}
	for _, name := range []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: api.Getenv(name)})
	}
	if status := c.start("dbqpg-credentials-0", job, container).Wait(); status != 0 {
		c.t.Fatalf("the credentials are not made: status %d", status)
	}
	maps.Copy(c.secrets, api.Data())
	if len(c.secrets) < 7 {
		c.t.Fatal(slices.Collect(maps.Keys(c.secrets)))
	}
}

// startAll starts all pods of a workload.
func (c *cluster) startAll(kind, name string) (started []*process) {
	c.t.Helper()
	o := c.r.find(c.t, kind, name)
	replicas, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range replicas {
		started = append(started, c.startPod(o, fmt.Sprint(name, "-", i)))
	}
	return started
}

// startPod starts a pod of a workload, again too: it finds its volumes and has its name.
func (c *cluster) startPod(workload *unstructured.Unstructured, name string) *process {
	c.t.Helper()
	pod := podOf(c.t, workload)
	return c.start(name, pod, pod.Spec.Containers[0])
}

// runOnce starts the pod of a Job, or a Pod.
func (c *cluster) runOnce(kind, name string) *process {
	c.t.Helper()
	pod := podOf(c.t, c.r.find(c.t, kind, name))
	return c.start(name, pod, pod.Spec.Containers[0])
}

// alone trains the same run in one process, without any cluster, and returns its directory.
func alone(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "run")
	learner := exec.Command(program(t, "learner"), "--env", "Swimmer-v2", "--iterations", "10", "--batch", "1000",
		"--device", "cpu",
		"--listen", "127.0.0.1:0", "--run-dir", directory)
	// pods have no OPENBLAS_CORETYPE either, which changes the last bits
	learner.Env = []string{"TMPDIR=" + t.TempDir()}
	if output, err := learner.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return directory
}
