package main_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/store/storetest"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto"
)

// points are the named points where a worker is killed, and how often each is passed in a run of an example.
var points = []struct {
	name  string
	times func(e *example) int
}{
	{"taken", once}, {"publishing", each}, {"collected", each}, {"updated", fewer}, {"saved", each},
	{"storing", each}, {"stored", each}, {"committed", each}, {"acknowledged", each}, {"finishing", once},
}

func once(*example) int    { return 1 }
func each(e *example) int  { return e.iterations + 1 } // with the batch that initialises the normaliser
func fewer(e *example) int { return e.iterations }

// A worker killed at any point of its work, with the disk, the store and the coordinator in any state, is replaced by
// another that waits, which goes on from the last commit, to the same bits; at most one iteration is done again, and
// those before whose commits the killed one has said that training goes on, as on a machine where a commit takes longer
// than a second.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	rng := faultstest.Rand(faultstest.Seed(t), 0)
	repetitions, at := faultstest.Count(1, 25), 4 // points: some will do
	if faultstest.Long() {
		at = len(points)
	}
	e := examples[1]
	c := newCluster(t)
	var took []time.Duration
	for i := range repetitions {
		for _, p := range rng.Perm(len(points))[:at] {
			point := points[p]
			fail := fmt.Sprintf("kill@%s:%d", point.name, 1+rng.IntN(point.times(e)))
			for try := 1; ; try++ {
				after, ok := c.killAt(e, c.submit(e, fmt.Sprintf("killed-%s-%d-%d", point.name, i, try)), fail)
				if ok {
					took = append(took, after)
					break
				}
				if try == 5 {
					t.Fatalf("no worker came to %s before it lost its lease", fail)
				}
			}
		}
	}
	faultstest.Report(t, "%d workers killed at %d points; another resumed after %s, by leases of %s; the same bits, "+
		"at most the iteration under way again",
		len(took), at, spread(took), leaseTerm)
}

// killAt has a worker killed at a point of a run, and another go on. It returns how long that one took to take over;
// not ok is a worker that lost its lease before it came to the point, as on a machine that stands still for a second.
func (c *cluster) killAt(e *example, name, fail string) (after time.Duration, ok bool) {
	c.t.Helper()
	first := c.worker(fail)
	c.await(name, func(run *registry.Run) bool { return run.Epoch == 1 })
	second := c.worker("")
	ok = first.endsBefore(gaveUp)
	first.Kill()
	died := time.Now()
	at := second.resumed()
	after = time.Since(died)
	if ok {
		first.requireNotAgain(at)
	}
	run := c.done(name)
	c.requireReference(e, run, 2+uint64(strings.Count(second.Log(), gaveUp)))
	second.Signal(syscall.SIGTERM)
	second.Succeed()
	return after, ok
}

// resumed waits until a worker has taken a run for the second time, and returns the iteration that it goes on from.
func (p *process) resumed() int {
	p.t.Helper()
	from, err := strconv.Atoi(p.Expect(`msg=taken .* epoch=2 "from iteration"=(\d+)`)[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return from
}

// requireNotAgain fails unless whoever goes on from an iteration after a worker's end repeats at most the one under
// way, and those for whose commits training did not wait.
func (p *process) requireNotAgain(from int) {
	p.t.Helper()
	done, ahead := strings.Count(p.Log(), `msg="iteration done"`),
		strings.Count(p.Log(), `msg="training goes on before its commit"`)
	if done > from+ahead || done+1 < from {
		p.t.Errorf("after %d iterations that were done, %d of them ahead of their commits, another "+
			"worker goes on from iteration %d", done, ahead, from)
	}
}

// gaveUp is what a worker says that has lost its lease.
const gaveUp = "gave the run up"

// endsBefore waits until the process has ended by a signal (true) or has written a text.
func (p *process) endsBefore(text string) bool {
	p.t.Helper()
	if p.Await(regexp.QuoteMeta(text)) != nil {
		p.t.Logf("%s lost its lease", p)
		return false
	}
	if status := p.Wait(); status != -1 {
		p.t.Fatalf("%s ended with status %d", p, status)
	}
	return true
}

// A worker that is stopped for longer than its lease, and then goes on, can neither commit what it had saved nor
// publish a policy; the one that replaced it is not disturbed.
func TestStalledWorker(t *testing.T) {
	t.Parallel()
	e := examples[1]
	for point, times := range map[string]int{"stored": 4, "acknowledged": 3} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			_, nats := startServer(t, "0")
			name := c.submit(e, "stalled")
			stalled := c.worker(fmt.Sprintf("stop@%s:%d", point, times), "--nats", nats)
			c.await(name, func(run *registry.Run) bool { return run.Iteration() >= uint64(times-2) })
			second := c.worker("", "--nats", nats)
			second.Expect(`msg=taken .* epoch=2 `)
			second.iterations(times + 1)
			before, err := c.client.Run(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			stalled.awaitStop()
			stalled.Signal(syscall.SIGCONT)
			stalled.Expect(`gave the run up.* epoch=1 .*(at epoch 2|has taken over)`)
			if done := strings.Count(stalled.Log(), `msg="iteration done"`); done > times {
				t.Errorf("%d iterations were done by the worker that was stopped at %d", done, times)
			}
			after := c.done(name)
			if after.Epoch != before.Epoch {
				t.Errorf("epoch %d after %d", after.Epoch, before.Epoch)
			}
			c.requireReference(e, after, 2)
		})
	}
}

// While the coordinator is away training goes on, and commits wait; when it is back they are made, in order.
func TestCoordinatorRestarted(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "restarted")
	worker := c.worker("", "--lease-term", "30s")
	worker.iterations(2)
	c.coordinator.Kill()
	worker.iterations(4) // not committed
	c.startCoordinator()
	c.requireReference(e, c.done(name), 1)
}

// A coordinator that stays away is not waited for forever: training stops, and goes on from the last commit once it is
// back.
func TestCoordinatorGone(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "gone")
	worker := c.worker("stop@acknowledged:3", "--lease-term", "500ms")
	committed := c.await(name, func(run *registry.Run) bool { return run.Iteration() == 2 })
	worker.awaitStop()
	c.coordinator.Kill()
	worker.Signal(syscall.SIGCONT)
	worker.Expect("gave the run up.*has not answered for 5s")
	c.startCoordinator()
	from := worker.Expect(`msg=taken .* epoch=2 "from iteration"=(\d+)`)[1]
	if from != fmt.Sprint(committed.Iteration()) {
		t.Errorf("it went on from iteration %s, committed is %d", from, committed.Iteration())
	}
	c.requireReference(e, c.done(name), 2)
}

// Two workers share the runs of a sweep, with checkpoints in a bucket. If one is killed, the other takes over its run
// within the lease term and a few seconds. No secret is shown.
func TestWorkersWithBucket(t *testing.T) {
	t.Parallel()
	e := examples[1]
	server := storetest.Start(t)
	c := newCluster(t)
	c.environment = server.Environment()
	c.checkpoints = store.Scheme + storetest.Bucket + "/runs"
	names := []string{c.submit(e, "first"), c.submit(e, "second"), c.submit(e, "third")}
	killed := c.worker("kill@stored:4")
	killed.iterations(1)
	left := c.worker("")
	left.iterations(1)
	killed.Wait()
	died := time.Now()
	for _, name := range names {
		if run := c.done(name); run.Epoch > 2 || run.Iteration() != uint64(e.iterations) {
			t.Errorf("%s ended at epoch %d, iteration %d", name, run.Epoch, run.Iteration())
		}
	}
	t.Logf("all done %v after the kill", time.Since(died).Round(time.Millisecond))
	if again := left.Expect(`msg=taken .* epoch=2 "from iteration"=(\d+)`)[1]; again != "2" {
		t.Errorf("it went on from iteration %s, want 2: the fourth commit was not made", again)
	}
	local := t.TempDir() // the bucket's objects are files of their own
	if err := os.CopyFS(local, os.DirFS(filepath.Join(server.Root, storetest.Bucket, "runs"))); err != nil {
		t.Fatal(err)
	}
	c.checkpoints = local
	for _, name := range names {
		run, err := c.client.Run(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c.requireReference(e, run, run.Epoch)
	}
	shown := killed.Log() + left.Log() + c.coordinator.Log()
	err := filepath.WalkDir(local, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		shown += string(data)
		return err
	})
	if err != nil || strings.Contains(shown, storetest.SecretKey) {
		t.Errorf("the secret is shown (%v)", err)
	}
}

// A bucket that cannot be reached for a while holds up commits, not training.
func TestBucketAway(t *testing.T) {
	t.Parallel()
	e := examples[1]
	server := storetest.Start(t)
	c := newCluster(t)
	c.environment = server.Environment()
	c.checkpoints = store.Scheme + storetest.Bucket
	name := c.submit(e, "away")
	worker := c.worker("", "--lease-term", "30s")
	worker.iterations(2)
	server.Kill()
	worker.iterations(4)
	server.Run()
	run := c.done(name)
	c.checkpoints = filepath.Join(server.Root, storetest.Bucket)
	c.requireReference(e, run, 1)
}

// With credentials, over TLS, workers learn the same bits. One without, or with another's, gets no run.
func TestWorkerWithCredentials(t *testing.T) {
	t.Parallel()
	e := examples[1]
	files := newCredentials(t)
	operator, err := credentials.Load(filepath.Join(files, "operator"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c := newClusterOver(t, "https", operator.Client(proto.RoleCoordinator), "--credentials",
		filepath.Join(files, "coordinator"))
	name := c.submit(e, "secured")
	c.worker("", "--credentials", filepath.Join(files, "actor")).fail("they are for role actor, required is learner")
	stranger := c.worker("")
	stranger.Expect("the coordinator does not answer.*certificate")
	c.worker("", "--credentials", filepath.Join(files, "learner"))
	c.requireReference(e, c.done(name), 1)
	if strings.Contains(stranger.Log(), "msg=taken") {
		t.Error("a worker without credentials has got the run")
	}
}

// A worker that is stopped releases its run, which another worker resumes at once.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "stopped")
	first := c.worker("", "--lease-term", "1h")
	first.iterations(2)
	if seen, err := c.client.Seen(t.Context()); err != nil || len(seen.Seen) != 1 || seen.Seen[0].Run != name ||
		seen.Seen[0].Silent {
		t.Errorf("%+v, %v", seen, err)
	}
	first.Signal(syscall.SIGTERM)
	first.Succeed()
	first.Expect("the run is given back")
	if seen, err := c.client.Seen(t.Context()); err != nil || len(seen.Seen) != 0 {
		t.Errorf("it has not left: %+v, %v", seen, err)
	}
	c.worker("").Expect(`msg=taken .* epoch=2 `)
	c.requireReference(e, c.done(name), 2)
}

// A run that kills its workers, as the kernel does where it needs too much memory, has failed after five of them, and
// the next run is trained. Queued again, it goes on to the same bits.
func TestRunThatKillsWorkers(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "poisoned")
	for i := range registry.MaxLosses {
		if status := c.worker("kill@updated:1", "--lease-term", "500ms").Wait(); status != -1 {
			t.Fatalf("worker %d ended with status %d", i, status)
		}
	}
	next := c.submit(e, "next")
	c.worker("")
	failed := c.await(name, func(run *registry.Run) bool { return run.State == registry.Failed })
	if want := "5 workers in a row ended without a commit, the last, "; !strings.HasPrefix(failed.Reason, want) {
		t.Errorf("it failed because of %q", failed.Reason)
	}
	c.requireReference(e, c.done(next), 1)
	if _, err := c.client.Do(t.Context(), registry.Command{
		Steer: &registry.Steer{Name: name, Action: registry.Retry}}); err != nil {
		t.Fatal(err)
	}
	c.requireReference(e, c.done(name), registry.MaxLosses+1)
}

// A run whose numbers overflow fails, and the coordinator records the reason; one whose newest checkpoint is damaged goes
// on from the one before; the worker continues with other runs.
func TestFailedRun(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "damaged")
	first := c.worker("kill@committed:3")
	first.Wait()
	run, err := c.client.Run(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	newest := filepath.Join(c.checkpoints, filepath.FromSlash(run.Name), "epoch-1", "checkpoints",
		runs.FileName(run.Iteration()))
	if err := os.Truncate(newest, 1000); err != nil {
		t.Fatal(err)
	}
	overflown := c.submit(examples[0], "overflow", registry.Override{Name: "learning_rate", Values: []string{"1e300"}})
	next := c.submit(e, "next")
	c.worker("", "--lease-term", "500ms")
	c.requireReference(e, c.done(name), 2)
	failed := c.await(overflown, func(run *registry.Run) bool { return run.State == registry.Failed })
	if !strings.Contains(failed.Reason, "iteration 1: policy: params: not finite") {
		t.Errorf("it failed because of %q", failed.Reason)
	}
	c.requireReference(e, c.done(next), 1)
}

// A run of a sweep starts from the policy of another in the workers' store. One whose source is not in the store fails,
// and its worker continues with other runs.
func TestWorkerStartsFromAnotherRun(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	source := c.submit(e, "source")
	worker := c.worker("")
	first := c.done(source)
	from := func(value string) registry.Override { return registry.Override{Name: "from", Values: []string{value}} }
	warm := c.submit(e, "warm", from(source))
	outside := c.submit(e, "outside", from(c.checkpoints))
	absent := c.submit(e, "absent", from(source+"/epoch-1/checkpoints/none.safetensors"))
	done := c.done(warm)
	for name, why := range map[string]string{outside: "cannot be a key", absent: "none.safetensors"} {
		if failed := c.await(name, func(run *registry.Run) bool {
			return run.State == registry.Failed
		}); !strings.Contains(failed.Reason, why) {
			t.Errorf("%s failed because of %q, want %q", name, failed.Reason, why)
		}
	}
	worker.Signal(syscall.SIGTERM)
	worker.Succeed()
	checkpoints, err := store.OpenDirectory(c.checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	best, err := runs.Location{Store: checkpoints, Key: source}.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	last, err := runs.Location{Store: checkpoints, Key: done.Name}.Open(t.Context(), runs.NewestCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	if last.State.From != best.SHA256 || last.State.Iteration != first.Iteration() {
		t.Errorf("checkpoint %d is of a run that started from %q, where the best is %q", last.State.Iteration,
			last.State.From, best.SHA256)
	}
}

func TestWrongWorkers(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"worker":                  "--coordinator: give its URL",
		"worker --env Swimmer-v2": "--env: the coordinator determines what a worker learns",
		"worker --coordinator http://127.0.0.1:1 --checkpoints gs://x": "--checkpoints: \"gs://x\": must be a " +
			"directory, or s3://bucket/prefix",
		"--env Swimmer-v2 --worker": "start a worker with: learner worker",
		"worker --coordinator http://127.0.0.1:1 --checkpoints /proc/nowhere": "--checkpoints: ",
	} {
		cmd := exec.Command(filepath.Join(programs, "learner"), strings.Fields(arguments)...)
		cmd.Dir = t.TempDir()
		startCommand(t, cmd).fail(want)
	}
}
