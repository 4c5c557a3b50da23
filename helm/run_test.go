package helm

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dbqpg/dbqpg/helm/internal/progresstest"
)

// A run without a coordinator trains: its learner and an actor are killed, the run is suspended and resumed, and the
// pods of both Jobs end with success. The result is the same bits as that of one process on one machine.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	t.Parallel()
	values := presets(t)["kind"]
	for key, value := range parse(t, `
run: {env: Swimmer-v2, actors: 2, settings: {iterations: 10, batch: 1000}}
experiments: []`) {
		merge(values, key, value)
	}
	c := newCluster(t, render(t, values))
	c.makeSecrets()
	pod := func(job string, index int) *process {
		return c.startPod(c.r.find(t, "Job", job), fmt.Sprint(job, "-", index))
	}
	learner, actors := pod("dbqpg-learner", 0), []*process{pod("dbqpg-actor", 0), pod("dbqpg-actor", 1)}
	learner.ready()
	learner.Expect(`"iteration done","iteration":2,`)
	learner.Kill()
	actors[0].Kill()
	learner, actors[0] = pod("dbqpg-learner", 0), pod("dbqpg-actor", 0)
	learner.Expect(`"iteration done","iteration":5,`)
	for _, p := range append(actors, learner) { // suspended: Kubernetes does not look at their status
		p.Signal(syscall.SIGTERM)
		p.Wait()
	}
	learner, actors = pod("dbqpg-learner", 0), []*process{pod("dbqpg-actor", 0), pod("dbqpg-actor", 1)}
	for _, p := range append(actors, learner) {
		if status := p.Wait(); status != 0 {
			t.Errorf("%s ended with status %d", p.pod, status)
		}
	}
	directory, undisturbed := filepath.Join(c.volumes, "dbqpg-checkpoints", "dbqpg"), alone(t)
	if err := progresstest.Compare(10, filepath.Join(directory, "progress.csv"),
		filepath.Join(undisturbed, "progress.csv")); err != nil {
		t.Error(err)
	}
	if err := progresstest.CompareStates(10, directory, undisturbed); err != nil {
		t.Error(err)
	}
}

// A run's Jobs have the values for queues and failures; where the cluster has JobSets, one has both.
func TestRunJobs(t *testing.T) {
	values := parse(t, `
run: {env: Hopper-v5, actors: 3, suspend: true, queue: q, schedulerName: s, activeDeadlineSeconds: 60, backoffLimit: 2}`)
	check := func(spec map[string]any, completions int32) {
		t.Helper()
		job := convert[batchv1.JobSpec](t, spec)
		if job.Completions != nil && *job.Completions != completions || *job.ActiveDeadlineSeconds != 60 ||
			*job.BackoffLimit != 2 || job.Template.Spec.SchedulerName != "s" ||
			job.PodFailurePolicy.Rules[0].Action != batchv1.PodFailurePolicyActionIgnore {
			t.Errorf("%+v", job)
		}
	}
	queue := func(o *unstructured.Unstructured) {
		t.Helper()
		suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
		if o.GetLabels()["kueue.x-k8s.io/queue-name"] != "q" || !suspended {
			t.Errorf("%s: %v, suspended %v", o.GetName(), o.GetLabels(), suspended)
		}
	}
	jobs := map[string]int32{"learner": 1, "actor": 3}
	r := render(t, values)
	for name, completions := range jobs {
		o := r.find(t, "Job", "dbqpg-"+name)
		queue(o)
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		check(spec, completions)
	}
	if n := len(r.ofKind("StatefulSet")) + len(r.ofKind("Deployment")); n != 0 {
		t.Errorf("%d StatefulSets and Deployments beside the Jobs", n)
	}
	r, err := renderAs(loadChart(t), releaseName, values, "jobset.x-k8s.io/v1alpha2")
	if err != nil {
		t.Fatal(err)
	}
	set := r.find(t, "JobSet", "dbqpg")
	queue(set)
	parts, _, _ := unstructured.NestedSlice(set.Object, "spec", "replicatedJobs")
	for _, part := range parts {
		part := part.(map[string]any)
		spec, _, _ := unstructured.NestedMap(part, "template", "spec")
		check(spec, jobs[part["name"].(string)])
	}
	if jobs := r.ofKind("Job"); len(parts) != 2 || len(jobs) != 1 { // that of the credentials
		t.Errorf("%d parts, %d Jobs", len(parts), len(jobs))
	}
}
