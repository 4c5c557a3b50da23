package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const run = "exp/Swimmer-v2/npg-uapg-s1"

func newStore(t *testing.T) store.Store {
	t.Helper()
	s, err := store.OpenDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// coordinatorAt returns a client of a coordinator that answers as handle does.
func coordinatorAt(t *testing.T, handle http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{URLs: []string{server.URL}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newLease(c *client.Client, term time.Duration) *lease {
	return &lease{Hold: registry.Hold{Run: run, Epoch: 2}, coordinator: c, term: term, log: slog.New(slog.DiscardHandler)}
}

// hashOf returns a text's SHA-256.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// A pending commit, whose checkpoint holds its iteration's number.
func testLink(iteration uint64) (registry.Commit, []file) {
	text := fmt.Sprint(iteration)
	location := path.Join(run, "epoch-2", "checkpoints", checkpoint.FileName(iteration))
	return registry.Commit{Checkpoint: registry.Checkpoint{Iteration: iteration, SHA256: hashOf(text), Location: location}},
		[]file{{location, []byte(text)}}
}

// While the coordinator does not answer, training goes on until maxWaiting iterations wait, and then it waits too.
func TestCommitsWait(t *testing.T) {
	unavailable := coordinatorAt(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error": {"code": "unavailable", "message": "no leader"}}`)
	})
	c := newCommitQueue(newLease(unavailable, time.Hour), newStore(t), "", func(uint64) bool { return false })
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.run(ctx, cancel) }()
	const inHand = 1
	for i := range uint64(maxWaiting + inHand) {
		commit, files := testLink(i)
		if err := c.add(ctx, commit, files); err != nil {
			t.Fatalf("iteration %d: %v", i, err)
		}
	}
	added := make(chan error)
	go func() {
		commit, files := testLink(maxWaiting + inHand)
		added <- c.add(ctx, commit, files)
	}()
	select {
	case err := <-added:
		t.Errorf("one more did not wait: %v", err)
	case <-time.After(50 * time.Millisecond): // it cannot be known that it would wait forever
	}
	why := errors.New("enough")
	cancel(why)
	if err := <-added; !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
	<-ended
}

// Each commit is in the store before it is committed, and follows the one before; what lies before it is removed only
// afterwards, and of other epochs only the earlier ones.
func TestChain(t *testing.T) {
	s := newStore(t)
	put := func(key string) {
		if err := s.Put(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, epoch := range []string{"epoch-1", "epoch-3", "epoch-10"} {
		put(run + "/" + epoch + "/progress.csv")
	}
	var commits []string
	coordinator := coordinatorAt(t, func(w http.ResponseWriter, r *http.Request) {
		keys, err := s.List(context.Background(), run+"/epoch-2")
		if err != nil {
			t.Error(err)
		}
		commits = append(commits, fmt.Sprint(len(keys)))
		fmt.Fprint(w, `{"run": {}}`)
	})
	c := newCommitQueue(newLease(coordinator, time.Hour), s, hashOf("before"), func(iteration uint64) bool { return iteration == 1 })
	links := make(chan struct{})
	lost := func(err error) { t.Errorf("lost: %v", err) }
	go func() { defer close(links); c.run(t.Context(), lost) }()
	for i := range uint64(4) {
		commit, files := testLink(i)
		before := c.last
		if err := c.add(t.Context(), commit, files); err != nil {
			t.Fatal(err)
		}
		if i > 0 && before != hashOf(fmt.Sprint(i-1)) {
			t.Errorf("iteration %d follows %s", i, before)
		}
	}
	c.close()
	<-links
	if want := "1 2 2 3"; strings.Join(commits, " ") != want {
		t.Errorf("files of the epoch at each commit: %v, want %s", commits, want)
	}
	keys, err := s.List(t.Context(), run)
	want := []string{run + "/epoch-10/progress.csv", run + "/epoch-2/checkpoints/" + checkpoint.FileName(1),
		run + "/epoch-2/checkpoints/" + checkpoint.FileName(3), run + "/epoch-3/progress.csv"}
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("left are %q, %v; want %q", keys, err, want)
	}
}

// A refusal ends the queue at once, and the lease.
func TestRefused(t *testing.T) {
	refusing := coordinatorAt(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"refusal": {"code": "stale_epoch", "message": "it is at epoch 3"}}`)
	})
	for name, do := range map[string]func(context.Context, context.CancelCauseFunc){
		"lease": newLease(refusing, 30*time.Millisecond).keep,
		"commit": func(ctx context.Context, lose context.CancelCauseFunc) {
			c := newCommitQueue(newLease(refusing, time.Hour), newStore(t), "", func(uint64) bool { return false })
			go func() { commit, files := testLink(0); _ = c.add(ctx, commit, files) }() // the context's end
			c.run(ctx, lose)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			do(ctx, cancel)
			var lost *lostError
			if err := context.Cause(ctx); !errors.As(err, &lost) || !errors.Is(err, client.StaleEpoch) {
				t.Errorf("cause %v", err)
			}
		})
	}
}

// Only the checkpoint that was committed is ever resumed from.
func TestFetch(t *testing.T) {
	s := newStore(t)
	location := run + "/epoch-1/checkpoints/" + checkpoint.FileName(5)
	for key, text := range map[string]string{
		location: "five",
		run + "/epoch-1/checkpoints/" + checkpoint.FileName(6):   "not committed",
		run + "/epoch-1/checkpoints/" + checkpoint.FileName(2):   "to keep",
		run + "/epoch-1/checkpoints/best.safetensors":            "best",
		run + "/epoch-1/progress.csv":                            "rows",
		run + "/epoch-1/elsewhere/iteration-00000005.safetensor": "no",
	} {
		if err := s.Put(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	other := "other/Swimmer-v2/npg-uapg-s1/epoch-1/checkpoints/" + checkpoint.FileName(5)
	for _, c := range []struct {
		name       string
		checkpoint *registry.Checkpoint
		want       error
		files      []string
	}{
		{"nothing committed", nil, nil, nil},
		{"committed", &registry.Checkpoint{Iteration: 5, SHA256: hashOf("five"), Location: location}, nil,
			[]string{"checkpoints/best.safetensors", "checkpoints/" + checkpoint.FileName(2), "checkpoints/" + checkpoint.FileName(5), "config.yaml", "progress.csv"}},
		{"damaged", &registry.Checkpoint{Iteration: 5, SHA256: hashOf("six"), Location: location}, errDamaged, nil},
		{"missing", &registry.Checkpoint{Iteration: 4, SHA256: hashOf("five"), Location: run + "/epoch-1/checkpoints/" + checkpoint.FileName(4)}, errMissing, nil},
		{"of another iteration", &registry.Checkpoint{Iteration: 4, SHA256: hashOf("five"), Location: location}, errDamaged, nil},
		{"of another run", &registry.Checkpoint{Iteration: 5, SHA256: hashOf("five"), Location: other}, errDamaged, nil},
		{"outside", &registry.Checkpoint{Iteration: 5, SHA256: hashOf("five"), Location: run + "/epoch-1/../../../" + checkpoint.FileName(5)}, errDamaged, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := &config.Settings{RunDir: t.TempDir(), KeepCheckpoints: []uint64{2, 3, 6}}
			err := fetch(t.Context(), s, &registry.Run{Name: run, Checkpoint: c.checkpoint}, settings)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			got, err := fs.Glob(os.DirFS(settings.RunDir), "*")
			if err != nil {
				t.Fatal(err)
			}
			beside, _ := fs.Glob(os.DirFS(settings.RunDir), "*/*")
			got = append(slices.DeleteFunc(got, func(name string) bool { return name == checkpointsName }), beside...)
			slices.Sort(got)
			if c.want == nil && !slices.Equal(got, c.files) {
				t.Errorf("fetched %q, want %q", got, c.files)
			}
		})
	}
}

// A machine's fault does not fail a run, unless it might be the run's all the same and happens again and again.
func TestOwnFault(t *testing.T) {
	_, missing := os.Open(filepath.Join(t.TempDir(), "none"))
	lost := fmt.Errorf("iteration 2: %w", &compute.Failure{Err: errors.New("the GPU was lost")})
	for _, c := range []struct {
		err           error
		own, suspects bool
	}{
		{missing, true, false},
		{fmt.Errorf("x: %w", syscall.ENOSPC), true, false},
		{fmt.Errorf("%w: gone", errStore), true, false},
		{fmt.Errorf("%w: gone", errMissing), true, false},
		{session.SetupError{}, true, false},
		{lost, true, true},
		{outOfMemory(false), true, true},
		{outOfMemory(true), false, true},
		{errDamaged, false, false},
		{errors.New("the gradient is NaN"), false, false},
		{fmt.Errorf("%w", checkpoint.ErrCorrupt), false, false},
	} {
		if own, suspects := ownFault(c.err), suspect(c.err); own != c.own || suspects != c.suspects {
			t.Errorf("%v: %v, %v", c, own, suspects)
		}
	}
}

// outOfMemory returns a device's error; tooLarge means that an empty device would be too small as well.
func outOfMemory(tooLarge bool) error {
	return fmt.Errorf("iteration 2: %w", &compute.Failure{Err: memoryError(tooLarge)})
}

type memoryError bool

func (memoryError) Error() string    { return "out of memory" }
func (e memoryError) TooLarge() bool { return bool(e) }

func TestReason(t *testing.T) {
	long := reason(errors.New("a\nb\x1b[31m\xff" + strings.Repeat("ü", 2000)))
	fail := registry.Command{Fail: &registry.Fail{Hold: registry.Hold{Run: run, Epoch: 1}, Reason: long}}
	if err := fail.Check(); err != nil || !strings.HasPrefix(long, "a b [31m?ü") {
		t.Errorf("%q: %v", long, err)
	}
}

func TestDefaultName(t *testing.T) {
	if err := proto.CheckRun(defaultName()); err != nil {
		t.Error(err)
	}
}
