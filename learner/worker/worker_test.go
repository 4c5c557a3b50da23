package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/runs"
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
	return &lease{Hold: registry.Hold{Run: run, Epoch: 2}, home: run, coordinator: c, term: term,
		log: slog.New(slog.DiscardHandler)}
}

// hashOf returns a text's SHA-256.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// A pending commit, whose checkpoint holds its iteration's number.
func testLink(iteration uint64) (registry.Commit, []file) {
	text := fmt.Sprint(iteration)
	location := path.Join(run, "epoch-2", "checkpoints", runs.FileName(iteration))
	return registry.Commit{Checkpoint: registry.Checkpoint{Iteration: iteration, SHA256: hashOf(text),
			Location: location}},
		[]file{{location, []byte(text)}}
}

// While the coordinator does not answer, training goes on until maxWaiting iterations wait, and then it waits too.
func TestCommitsWait(t *testing.T) {
	unavailable := coordinatorAt(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error": {"code": "unavailable", "message": "no leader"}}`)
	})
	c := newCommitQueue(newLease(unavailable, time.Hour), newStore(t), nil, 3, func(uint64) bool { return false })
	c.patience = time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.run(ctx, cancel) }()
	const inHand = 1
	for i := range uint64(maxWaiting + inHand) {
		commit, files := testLink(i)
		if err := c.add(ctx, commit, files, nil); err != nil {
			t.Fatalf("iteration %d: %v", i, err)
		}
	}
	added := make(chan error)
	go func() {
		commit, files := testLink(maxWaiting + inHand)
		added <- c.add(ctx, commit, files, nil)
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

// slowStore is a store that writes once its gate is open.
type slowStore struct {
	store.Store
	gate chan struct{}
}

func (s *slowStore) Put(ctx context.Context, key string, data []byte) error {
	<-s.gate
	return s.Store.Put(ctx, key, data)
}

// While the store takes longer for a commit than training waits, training goes on and says so for each iteration; that
// is what another worker would repeat. Once the store is as fast as usual training waits for each commit again.
func TestSlowStore(t *testing.T) {
	committed := make(chan uint64, maxWaiting)
	coordinator := coordinatorAt(t, func(w http.ResponseWriter, r *http.Request) {
		var c registry.Command
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			t.Error(err)
		}
		committed <- c.Commit.Checkpoint.Iteration
		fmt.Fprint(w, `{}`)
	})
	s := &slowStore{newStore(t), make(chan struct{})}
	var log bytes.Buffer
	l := newLease(coordinator, time.Hour)
	l.log = slog.New(slog.NewTextHandler(&log, nil))
	c := newCommitQueue(l, s, nil, maxWaiting, func(uint64) bool { return false })
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.run(ctx, cancel) }()
	add := func(iteration uint64) {
		t.Helper()
		commit, files := testLink(iteration)
		if err := c.add(ctx, commit, files, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.patience = time.Millisecond
	for i := range uint64(2) {
		add(i)
		if n := len(committed); n > 0 || !strings.Contains(log.String(),
			fmt.Sprintf("training goes on before its commit\" iteration=%d\n", i)) {
			t.Fatalf("%d commits; log:\n%s", n, &log)
		}
	}
	close(s.gate)
	c.patience = time.Hour
	add(2)
	if n := len(committed); n != 3 || strings.Contains(log.String(), "iteration=2") {
		t.Errorf("%d commits; log:\n%s", n, &log)
	}
	for i := range uint64(3) {
		if at := <-committed; at != i {
			t.Errorf("commit %d is of iteration %d", i, at)
		}
	}
	c.close()
	<-ended
}

// Each commit is in the store before it is committed, and follows the one before; of earlier checkpoints the last ones
// stay, and those to keep, and of other epochs only the later.
func TestChain(t *testing.T) {
	s := newStore(t)
	put := func(key string) {
		if err := s.Put(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	var before []link
	for i := range uint64(3) { // as many as are kept
		c := registry.Checkpoint{Iteration: i, SHA256: hashOf(fmt.Sprint(i)),
			Location: path.Join(run, "epoch-1", "checkpoints", runs.FileName(i))}
		before = append(before, link{c, 0})
		put(c.Location)
	}
	for _, key := range []string{
		"epoch-1/progress.csv", "epoch-3/progress.csv", "epoch-10/progress.csv", "id-7/epoch-1/progress.csv",
	} {
		put(run + "/" + key)
	}
	left := func(directory string) (all []string) {
		keys, err := store.List(context.Background(), s, path.Join(run, directory))
		if err != nil {
			t.Error(err)
		}
		for _, key := range keys {
			all = append(all, strings.TrimPrefix(key, run+"/"))
		}
		return all
	}
	var commits []string
	coordinator := coordinatorAt(t, func(w http.ResponseWriter, r *http.Request) {
		commits = append(commits, fmt.Sprint(len(left("epoch-1")), "+", len(left("epoch-2"))))
		fmt.Fprint(w, `{"run": {}}`)
	})
	c := newCommitQueue(newLease(coordinator, time.Hour), s, before, 3,
		func(iteration uint64) bool { return iteration == 4 })
	links := make(chan struct{})
	lost := func(err error) { t.Errorf("lost: %v", err) }
	go func() { defer close(links); c.run(t.Context(), lost) }()
	for i := uint64(3); i < 9; i++ {
		commit, files := testLink(i)
		if c.last != hashOf(fmt.Sprint(i-1)) {
			t.Errorf("iteration %d follows %s", i, c.last)
		}
		events := []file{{path.Join(run, "epoch-2", "events"), []byte(strings.Repeat("x", int(i)))}}
		if err := c.add(t.Context(), commit, files, events); err != nil {
			t.Fatal(err)
		}
	}
	c.close()
	<-links
	if want := "4+1 2+3 1+4 0+5 0+5 0+6"; strings.Join(commits, " ") != want {
		t.Errorf("files of the epochs at each commit: %v, want %s", commits, want)
	}
	of := func(i uint64) string { return "epoch-2/checkpoints/" + runs.FileName(i) }
	want := []string{"epoch-10/progress.csv", of(4), of(6), of(7), of(8), "epoch-2/events", "epoch-3/progress.csv",
		"id-7/epoch-1/progress.csv"}
	if keys := left(""); !slices.Equal(keys, want) {
		t.Errorf("left are %q; want %q", keys, want)
	}
	if events, err := s.Get(t.Context(), run+"/epoch-2/events"); err != nil || string(events) != "xxxxxxxx" {
		t.Errorf("events %q, %v", events, err)
	}
	if _, err := s.Get(t.Context(), markerName); err != nil {
		t.Error(err)
	}
}

// A refusal ends the queue at once, and the lease.
func TestRefused(t *testing.T) {
	refusing := coordinatorAt(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"error": {"code": "stale_epoch", "message": "it is at epoch 3"}}`)
	})
	for name, do := range map[string]func(context.Context, context.CancelCauseFunc){
		"lease": newLease(refusing, 30*time.Millisecond).keep,
		"commit": func(ctx context.Context, lose context.CancelCauseFunc) {
			c := newCommitQueue(newLease(refusing, time.Hour), newStore(t), nil, 3, func(uint64) bool { return false })
			go func() { commit, files := testLink(0); _ = c.add(ctx, commit, files, nil) }() // the context's end
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

// history is a store with the files of a run, each of which holds its own name, and the links of its chain.
type history struct {
	store.Store
	chain []link
}

func (h *history) put(t *testing.T, key string) {
	t.Helper()
	if err := h.Put(t.Context(), key, []byte(key)); err != nil {
		t.Fatal(err)
	}
}

// commit adds a checkpoint to the chain, and puts it into the store.
func (h *history) commit(t *testing.T, iteration uint64, home string, epoch uint64) {
	t.Helper()
	location := path.Join(epochs.Directory(home, epoch), "checkpoints", runs.FileName(iteration))
	h.chain = append(h.chain, link{registry.Checkpoint{Iteration: iteration, SHA256: hashOf(location),
		Location: location}, 100 * iteration})
	h.put(t, location)
	var text []byte
	for _, l := range h.chain {
		text = appendLink(text, l)
	}
	if err := h.Put(t.Context(), path.Join(epochs.Directory(home, epoch), chainName), text); err != nil {
		t.Fatal(err)
	}
}

// A run goes on from the newest intact checkpoint that follows the one that the coordinator has.
func TestFind(t *testing.T) {
	h := &history{Store: newStore(t)}
	for i := range uint64(8) { // 0 to 3 in epoch 1, 4 to 5 in epoch 2, 6 to 7 in epoch 4, of which 5 to 7 are left
		h.commit(t, i, run, []uint64{1, 1, 1, 1, 2, 2, 4, 4}[i])
	}
	for _, l := range h.chain[:5] {
		if err := h.Remove(t.Context(), l.Location); err != nil {
			t.Fatal(err)
		}
	}
	other := &history{Store: h.Store} // repeats 4 in epoch 3, and goes on
	other.chain = slices.Clone(h.chain[:4])
	other.commit(t, 4, run, 3)
	other.commit(t, 5, run, 3)
	reset := &history{Store: h.Store, chain: slices.Clone(h.chain[:6])} // to 5, under another ID
	reset.commit(t, 6, run+"/id-9", 11)
	foreign := "other/Swimmer-v2/npg-uapg-s1/epoch-1/checkpoints/" + runs.FileName(5)
	h.put(t, foreign)
	at := func(l link) *registry.Checkpoint { return &l.Checkpoint }
	to := func(l link) *registry.Checkpoint { // as the coordinator does: with the location of the last checkpoint
		return &registry.Checkpoint{Iteration: l.Iteration, Location: h.chain[7].Location}
	}
	for _, c := range []struct {
		name    string
		run     registry.Run
		want    link
		unknown []link
		err     error
	}{
		{"the last", registry.Run{Checkpoint: at(h.chain[7])}, h.chain[7], nil, nil},
		{"one before", registry.Run{Checkpoint: at(h.chain[5])}, h.chain[7], h.chain[6:], nil},
		{"of a backup", registry.Run{Checkpoint: at(h.chain[1])}, h.chain[7], h.chain[2:], nil},
		{"nothing was committed", registry.Run{}, h.chain[7], h.chain, nil},
		{"repeated", registry.Run{Checkpoint: at(other.chain[4])}, other.chain[5], other.chain[5:], nil},
		{"without a chain", registry.Run{Checkpoint: &registry.Checkpoint{Iteration: 5,
			SHA256: hashOf(h.chain[5].Location), Location: h.chain[5].Location}}, h.chain[7], h.chain[6:], nil},
		{"not begun", registry.Run{ID: 3}, link{}, nil, nil},
		{"reset", registry.Run{ID: 5, Start: to(h.chain[6])}, h.chain[6], h.chain[6:7], nil},
		{"reset and begun", registry.Run{ID: 9, Start: to(h.chain[5])}, reset.chain[6], reset.chain[5:], nil},
		{"reset and committed", registry.Run{ID: 9, Checkpoint: at(h.chain[5])}, reset.chain[6], reset.chain[6:], nil},
		{"reset to what is gone", registry.Run{ID: 5, Start: to(h.chain[3])}, link{}, nil, errMissing},
		{"reset to what never was", registry.Run{ID: 5,
			Start: &registry.Checkpoint{Iteration: 5,
				Location: epochs.Directory(run, 77) + "/checkpoints/" + runs.FileName(5)}}, h.chain[5], h.chain[5:6],
			nil},
		{"damaged", registry.Run{Checkpoint: &registry.Checkpoint{Iteration: 5, SHA256: hashOf("x"),
			Location: h.chain[5].Location}}, link{}, nil, errDamaged},
		{"missing", registry.Run{Checkpoint: &registry.Checkpoint{Iteration: 4, SHA256: hashOf("x"),
			Location: h.chain[4].Location}}, link{}, nil, errMissing},
		{"of another iteration", registry.Run{
			Checkpoint: &registry.Checkpoint{Iteration: 4, SHA256: hashOf(h.chain[5].Location),
				Location: h.chain[5].Location}}, link{}, nil, errDamaged},
		{"of another run", registry.Run{Checkpoint: &registry.Checkpoint{Iteration: 5, SHA256: hashOf(foreign),
			Location: foreign}}, link{}, nil, errDamaged},
		{"outside", registry.Run{Checkpoint: &registry.Checkpoint{Iteration: 5,
			Location: run + "/epoch-1/../../../" + runs.FileName(5)}}, link{}, nil, errDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run.Name = run
			r, err := find(t.Context(), h, &c.run, false)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || (r == nil) != (c.want == link{}) {
				t.Fatalf("%+v, %v, want %+v, %v", r, err, c.want, c.err)
			}
			if r != nil && (r.checkpoint() != c.want || string(r.data) != c.want.Location ||
				!slices.Equal(r.unknown, c.unknown)) {
				t.Errorf("%+v, want %+v, unknown %+v", r, c.want, c.unknown)
			}
		})
	}

	// What is damaged is passed over.
	if err := h.Put(t.Context(), h.chain[7].Location, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if r, err := find(t.Context(), h, &registry.Run{Name: run, Checkpoint: at(h.chain[1])}, false); err != nil ||
		r.checkpoint() != h.chain[6] {
		t.Errorf("%+v, %v", r, err)
	}
	last := &registry.Run{Name: run, Checkpoint: at(h.chain[7])}
	if r, err := find(t.Context(), h, last, false); !errors.Is(err, errDamaged) {
		t.Errorf("the last is damaged: %+v, %v", r, err)
	}
	if r, err := find(t.Context(), h, last, true); err != nil || r.checkpoint() != h.chain[6] || len(r.unknown) > 0 {
		t.Errorf("the one before a damaged one: %+v, %v", r, err)
	}
}

// Iterations that are repeated because their checkpoints were lost are stored, and the next commit follows the one that
// the coordinator has.
func TestRepeatedIterations(t *testing.T) {
	s := newStore(t)
	var commits []registry.Commit
	coordinator := coordinatorAt(t, func(w http.ResponseWriter, r *http.Request) {
		var c registry.Command
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Commit == nil {
			t.Errorf("%+v, %v", c, err)
			return
		}
		commits = append(commits, *c.Commit)
		fmt.Fprint(w, `{"run": {}}`)
	})
	before, _ := testLink(4)
	c := newCommitQueue(newLease(coordinator, time.Hour), s, []link{{before.Checkpoint, 0}}, 3,
		func(uint64) bool { return false })
	c.known = &registry.Checkpoint{Iteration: 6, SHA256: hashOf("lost")}
	links := make(chan struct{})
	go func() { defer close(links); c.run(t.Context(), func(err error) { t.Errorf("lost: %v", err) }) }()
	for i := uint64(5); i < 9; i++ {
		commit, files := testLink(i)
		if err := c.add(t.Context(), commit, files, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), files[0].key); err != nil {
			t.Error(err)
		}
	}
	c.close()
	<-links
	if len(commits) != 2 || commits[0].Checkpoint.Iteration != 7 || commits[0].Previous != hashOf("lost") ||
		commits[1].Previous != hashOf("7") {
		t.Errorf("%+v", commits)
	}
}

// The files beside a checkpoint are the newest.
func TestFill(t *testing.T) {
	h := &history{Store: newStore(t)}
	h.commit(t, 5, run, 1)
	h.commit(t, 6, run, 1)
	h.commit(t, 7, run, 2)
	for _, name := range []string{
		"checkpoints/" + runs.FileName(2), "checkpoints/best.safetensors", "progress.csv",
		"elsewhere/iteration-00000005.safetensor",
	} {
		h.put(t, epochs.Directory(run, 2)+"/"+name)
	}
	for _, last := range []int{1, 2} { // the newest is lost, or it is not
		r, err := find(t.Context(), h, &registry.Run{Name: run, Checkpoint: &h.chain[1].Checkpoint}, false)
		if err != nil || r.checkpoint() != h.chain[3-last] {
			t.Fatalf("%+v, %v", r, err)
		}
		settings := &config.Settings{RunDir: t.TempDir(), KeepCheckpoints: []uint64{2, 3, 7}}
		if err := r.fill(t.Context(), h, settings); err != nil {
			t.Fatal(err)
		}
		var got []string
		_ = fs.WalkDir(os.DirFS(settings.RunDir), ".", func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				got = append(got, name)
			}
			return err
		})
		want := []string{"checkpoints/best.safetensors", "checkpoints/" + runs.FileName(2),
			"checkpoints/" + runs.FileName(h.chain[3-last].Iteration), "config.yaml", "progress.csv"}
		if !slices.Equal(got, want) {
			t.Errorf("fetched %q, want %q", got, want)
		}
		if err := h.Remove(t.Context(), h.chain[2].Location); err != nil {
			t.Fatal(err)
		}
	}
}

// A chain ends where it is not one.
func FuzzParseChain(f *testing.F) {
	l := func(iteration uint64) link {
		location := path.Join(epochs.Directory(run+"/id-3", 4), "checkpoints", runs.FileName(iteration))
		return link{registry.Checkpoint{Iteration: iteration, SHA256: hashOf(location), Location: location}, 5}
	}
	good := appendLink(appendLink(nil, l(1)), l(2))
	for text, want := range map[string]int{
		string(good): 2, string(good[:len(good)-10]): 1, string(good) + "{}\n": 2, string(appendLink(good, l(4))): 2,
		"": 0,
		strings.ReplaceAll(string(good), "id-3", "id-x"): 0, strings.ReplaceAll(string(good), run, "other/run"): 0,
	} {
		f.Add([]byte(text))
		if got := parseChain(run, []byte(text)); len(got) != want {
			f.Errorf("%s: %+v", text, got)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for i, l := range parseChain(run, text) {
			if !strings.HasPrefix(l.Location, run+"/") || path.Clean(l.Location) != l.Location {
				t.Fatalf("link %d is %+v", i, l)
			}
		}
	})
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
		{session.SetupError{}, true, false},
		{lost, true, true},
		{outOfMemory(false), true, true},
		{outOfMemory(true), false, true},
		{errDamaged, false, false},
		{errors.New("the gradient is NaN"), false, false},
		{fmt.Errorf("%w", runs.ErrCorrupt), false, false},
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
	fail := registry.Command{End: &registry.End{Hold: registry.Hold{Run: run, Epoch: 1}, State: registry.Failed,
		Reason: long}}
	if err := fail.Check(); err != nil || !strings.HasPrefix(long, "a b [31m?ü") {
		t.Errorf("%q: %v", long, err)
	}
}

func TestDefaultName(t *testing.T) {
	if err := proto.CheckRun(defaultName()); err != nil {
		t.Error(err)
	}
}

// The store keeps as many of a run's checkpoints as --max-to-keep says.
func TestMaxToKeep(t *testing.T) {
	coordinator := coordinatorAt(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"run": {}}`) })
	for _, most := range []int{1, 4} {
		s := newStore(t)
		c := newCommitQueue(newLease(coordinator, time.Hour), s, nil, most, func(uint64) bool { return false })
		ended := make(chan struct{})
		go func() { defer close(ended); c.run(t.Context(), func(err error) { t.Errorf("lost: %v", err) }) }()
		for i := range uint64(6) {
			commit, files := testLink(i)
			if err := c.add(t.Context(), commit, files, nil); err != nil {
				t.Fatal(err)
			}
		}
		c.close()
		<-ended
		if keys, err := store.List(t.Context(), s, run+"/epoch-2/checkpoints"); err != nil || len(keys) != most {
			t.Errorf("%q, %v, want %d checkpoints", keys, err, most)
		}
	}
}

// A log that has become too long is cut, and the store then has what is left of it. Who is shut out of the run is known
// to the next worker.
func TestLogIsCut(t *testing.T) {
	s, directory := newStore(t), t.TempDir()
	for _, name := range []string{config.FileName, runs.ShutOutName, runs.ProgressName, runs.EvaluationsName} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(runs.Checkpoints(directory), 0o755); err != nil {
		t.Fatal(err)
	}
	coordinator := coordinatorAt(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"run": {}}`) })
	c := newCommitQueue(newLease(coordinator, time.Hour), s, nil, 3, func(uint64) bool { return true })
	ended := make(chan struct{})
	go func() { defer close(ended); c.run(t.Context(), func(err error) { t.Errorf("lost: %v", err) }) }()
	text, log := newRunLog(run, 2, slog.New(slog.DiscardHandler))
	j := &journal{ctx: t.Context(), directory: directory, commits: c, stored: map[string]string{}, log: text}
	for i := range uint64(4) {
		log.Info(strings.Repeat("x", maxLog/3), "iteration", i)
		if err := os.WriteFile(filepath.Join(runs.Checkpoints(directory), runs.FileName(i)), []byte(fmt.Sprint(i)),
			0o644); err != nil {
			t.Fatal(err)
		}
		if err := j.commit(&runs.State{Counters: runs.Counters{Iteration: i}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.close()
	<-ended
	stored, err := s.Get(t.Context(), text.key)
	if err != nil || !bytes.Equal(stored, text.file().data) || len(stored) > maxLog ||
		!bytes.HasSuffix(stored, []byte("iteration=3\n")) {
		t.Errorf("the store has %d bytes of the log, %v; %d are left", len(stored), err, len(text.file().data))
	}
	next := &config.Settings{RunDir: t.TempDir()}
	r := &resumption{chain: c.kept, directory: run + "/epoch-2"}
	if err := r.fill(t.Context(), s, next); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(runs.ShutOut(next.RunDir)); err != nil {
		t.Error(err)
	}
}
