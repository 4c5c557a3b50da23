package web

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/store"
)

// generator returns a seeded source of numbers, whose seed a failing test shows.
func generator(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lines returns random rows of a table with the columns iteration, a and b, in which some numbers are missing.
func lines(rng *rand.Rand, from, n int) string {
	var text strings.Builder
	for i := from; i < from+n; i++ {
		b := ""
		if rng.IntN(3) > 0 {
			b = fmt.Sprint(rng.NormFloat64())
		}
		fmt.Fprintf(&text, "%d,%v,%s\n", i, rng.Float64(), b)
	}
	return text.String()
}

// However a table grows, is asked for, or is replaced, its columns are those of the whole file read at once.
func TestColumnsFollowTheirFile(t *testing.T) {
	rng, root := generator(t), t.TempDir()
	path := filepath.Join(root, "run", "t.csv")
	kept := newColumns(store.Local(root))
	same := func() {
		t.Helper()
		wanted := [][]string{{"iteration"}, {"a", "b"}, {"b", "none"}, nil}[rng.IntN(4)]
		got, err := kept.read(t.Context(), "run", "t.csv", wanted...)
		if err != nil {
			t.Fatal(err)
		}
		want, err := newColumns(store.Local(root)).read(t.Context(), "run", "t.csv", wanted...)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || len(got) < len(wanted)-1 {
			t.Fatalf("%v: %d columns, want %d", wanted, len(got), len(want))
		}
		for name := range want {
			if !slices.EqualFunc(got[name], want[name], func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Fatalf("%s: %v, want %v", name, got[name], want[name])
			}
		}
	}
	if found, err := kept.read(t.Context(), "run", "t.csv"); err != nil || len(found) != 0 {
		t.Errorf("a table that does not exist: %v, %v", found, err)
	}
	text := "iteration,a,b\n"
	for range 200 {
		switch n := strings.Count(text, "\n"); rng.IntN(12) {
		case 0: // the run is resumed from an earlier iteration, with other times
			text = text[:strings.LastIndex(text[:len(text)*2/3], "\n")+1]
			if text == "" {
				text = "iteration,a,b\n"
			}
			text += lines(rng, strings.Count(text, "\n"), 1+rng.IntN(n))
		default:
			text += lines(rng, n, rng.IntN(5))
		}
		write(t, path, text+"77,0."[:rng.IntN(6)]) // half a line may follow
		same()
	}
}

// The least recently used tables are forgotten, and nothing that is kept is counted twice.
func TestColumnsAreBounded(t *testing.T) {
	root := t.TempDir()
	kept := newColumns(store.Local(root))
	const rows, tables = 50_000, 60 // of 3 columns of 4 bytes: 36 MB in all
	text := "iteration,a,b\n" + lines(generator(t), 0, rows)
	write(t, filepath.Join(root, "run", "0"), text)
	for i := range tables {
		if err := os.Link(filepath.Join(root, "run", "0"), filepath.Join(root, "run", fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	kept.bound = 10 << 20
	for range 2 {
		for i := range tables {
			if _, err := kept.read(t.Context(), "run", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := 0
	for _, e := range kept.tables {
		for _, values := range e.Value.(*table).values {
			size += 4 * cap(values)
		}
	}
	if size != kept.bytes || size > kept.bound || kept.recent.Len() != len(kept.tables) || len(kept.tables) < 5 {
		t.Errorf("%d tables with %d bytes, counted as %d, of at most %d", len(kept.tables), size, kept.bytes, kept.bound)
	}
}

// The slow way to a group's curve: at each iteration, the values of all runs that have got there.
func TestCurvesAreTheRunsMeans(t *testing.T) {
	rng := generator(t)
	for _, trim := range []float64{0, 0.25} {
		var runs []*Run
		var x, y [][]float32
		for range 9 {
			n := 1 + rng.IntN(300)
			var iterations, values []float32
			for i := range n {
				iterations, values = append(iterations, float32(i)), append(values, float32(rng.NormFloat64()))
			}
			runs, x, y = append(runs, &Run{Row: Row{Iteration: Number(n)}}), append(x, iterations), append(y, values)
		}
		g := newGrid(runs, "iteration", 0, math.Inf(1))
		var resampled [][]float32
		for i := range runs {
			resampled = append(resampled, g.resample(x[i], y[i]))
		}
		curve := summarize(resampled, g.bins, trim)
		for at, place := range g.centers() {
			var there []float64
			for i := range runs {
				if int(place) < len(y[i]) {
					there = append(there, float64(y[i][int(place)]))
				}
			}
			want := stats.TrimmedMean(there, trim)
			if got := curve.Value[at]; curve.Count[at] != len(there) || len(there) > 0 && math.Abs(float64(got)-want.Value) > 1e-6 {
				t.Fatalf("at iteration %v: %v of %d runs, want %v of %d", place, got, curve.Count[at], want.Value, len(there))
			}
		}
	}
}

// Long runs are thinned to at most 500 points, each the mean of its part of the axis, with lines over parts without any.
func TestCurvesAreThinned(t *testing.T) {
	rng := generator(t)
	var x, y []float32
	for steps := float32(0); steps < 1e6; steps += float32(1 + rng.IntN(900)) {
		if steps < 4e5 || steps > 4.2e5 {
			x, y = append(x, steps), append(y, steps/1000)
		}
	}
	g := newGrid([]*Run{{Row: Row{Steps: 1e6}}}, "steps", 0, math.Inf(1))
	if g.bins != maxPoints {
		t.Errorf("%d points", g.bins)
	}
	out := g.resample(x, y)
	for b, place := range g.centers() {
		if out[b] == out[b] && math.Abs(float64(out[b]-place/1000)) > 3 {
			t.Errorf("at %v steps: %v", place, out[b])
		}
	}
	if some := newGrid([]*Run{{Row: Row{Steps: 1e6}}}, "steps", 1000, 2000); some.centers()[0] < 1000 || some.centers()[some.bins-1] > 2010 {
		t.Errorf("a part of the axis: %v", some)
	}
	for _, bad := range []grid{newGrid(nil, "steps", 0, math.Inf(1)), newGrid([]*Run{{}}, "steps", 5, 1)} {
		if bad.bins != 0 {
			t.Errorf("no runs, or a part before its beginning: %v", bad)
		}
	}
}

// Groups are disjoint and contain all runs, and a group's query selects its runs and no others.
func TestGroupsAreQueries(t *testing.T) {
	rng := generator(t)
	var runs []Run
	for i := range 300 {
		settings := map[string]string{"gamma": []string{"0.9", "0.99"}[rng.IntN(2)], "hidden": []string{"[64, 64]", "[32]"}[rng.IntN(2)]}
		if rng.IntN(4) == 0 {
			settings["batch"] = "2000"
		}
		runs = append(runs, Run{Name: fmt.Sprint("run", i), Task: []string{"Hopper-v5", "Ant-v5"}[rng.IntN(2)], Seed: fmt.Sprint(i), Settings: settings, Row: Row{Return: Number(rng.Float64())}, State: Done})
	}
	table, err := tableOf(runs, time.Now(), url.Values{"group": {"task hidden batch"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range table.Groups {
		members, err := selected(runs, g.Query)
		if err != nil || len(members) != g.Runs {
			t.Errorf("%s selects %d runs of %d: %v", g.Query, len(members), g.Runs, err)
		}
		for _, r := range members {
			if seen[r.Name] {
				t.Errorf("%s is in two groups", r.Name)
			}
			seen[r.Name] = true
		}
	}
	if len(seen) != len(runs) || !slices.Equal(table.Names, []string{"experiment", "task", "algorithm", "estimator", "seed", "batch", "gamma", "hidden"}) {
		t.Errorf("%d runs in groups; names %v", len(seen), table.Names)
	}
}

func TestQueries(t *testing.T) {
	runs := []Run{
		{Name: "a/Hopper-v5/s1", Task: "Hopper-v5", State: Running, Row: Row{Best: 300}, Settings: map[string]string{"gamma": "0.99"}},
		{Name: "b/Ant-v5/s1", Task: "Ant-v5", State: Lost, Row: Row{Best: None}, Settings: map[string]string{"gamma": "0.9", "hidden": "[64, 64]"}},
	}
	for text, want := range map[string]string{
		"": "ab", "hopper": "a", "s1 ANT": "b", "task=Ant-v5": "b", "task!=Ant-v5": "a", "gamma=0.99 best>200": "a", "best<1e9": "a", "gamma<0.95": "b",
		`hidden="[64, 64]"`: "b", "hidden=": "a", "state=lost": "b", "nosuch=1": "", "seed=": "ab",
	} {
		found, err := selected(runs, text)
		got := ""
		for _, r := range found {
			got += r.Name[:1]
		}
		if err != nil || got != want {
			t.Errorf("%q selects %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"best>x", "a!b", "best<"} {
		if _, err := selected(runs, text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// What a run's directory says is what the table shows; of several epochs the last counts.
func TestDirectory(t *testing.T) {
	root, now := t.TempDir(), time.Now()
	settings := "# What is learned\nenv: Hopper-v5\nalgorithm: trpo\nestimator: uapg\nseed: 3\niterations: 4\ngamma: 0.99\nrun_dir: \"x\"\n"
	header := "iteration,steps,episodes,return_mean,return_min,return_max\n"
	write(t, filepath.Join(root, "done/config.yaml"), settings)
	write(t, filepath.Join(root, "done/progress.csv"), header+"0,10,1,1,1,1\n3,40,4,7.5,1,1\n")
	write(t, filepath.Join(root, "done/evaluations.csv"), "iteration,steps,episodes,mean_action_return\n0,0,10,3\n2,20,10,9\n3,30,10,5\n")
	write(t, filepath.Join(root, "lies/config.yaml"), settings)
	write(t, filepath.Join(root, "lies/progress.csv"), header+"0,10,1,1,1,1\n1,20,2,2.5,1,1\n2,30") // half a line
	for _, epoch := range []string{"epoch-2", "epoch-10"} {
		write(t, filepath.Join(root, "exp/t/r", epoch, "config.yaml"), settings)
		write(t, filepath.Join(root, "exp/t/r", epoch, "progress.csv"), header+"0,10,1,"+epoch[6:]+",1,1\n")
	}
	ofSteps := strings.Replace(settings, "iterations: 4\n", "iterations: 0\nsteps: 100\n", 1)
	for name, rows := range map[string]string{"steps/done": "0,90,1,1,1,1\n1,120,1,1,1,1\n", "steps/half": "0,10,1,1,1,1\n1,50,1,1,1,1\n"} {
		write(t, filepath.Join(root, name, "config.yaml"), ofSteps)
		write(t, filepath.Join(root, name, "progress.csv"), header+rows)
	}
	write(t, filepath.Join(root, "none/progress.csv"), header) // no run
	d := NewDirectory(store.Local(root))
	d.now = func() time.Time { return now.Add(5 * time.Minute) }
	runs, err := d.Runs(t.Context())
	if err != nil || len(runs) != 5 {
		t.Fatalf("%+v, %v", runs, err)
	}
	done, epochs, stopped := runs[0], runs[1], runs[2]
	if done.Name != "done" || done.State != Done || done.Iteration != 4 || done.Steps != 40 || done.Return != 7.5 || done.Best != 9 || done.Seed != "3" || done.Settings["gamma"] != "0.99" || done.Settings["run_dir"] != "" {
		t.Errorf("%+v", done)
	}
	if epochs.Name != "exp/t/r" || epochs.Epoch != 10 || epochs.Return != 10 || epochs.Logs != "exp/t/r/logs" {
		t.Errorf("%+v", epochs)
	}
	if stopped.State != Stopped || stopped.Iteration != 2 || stopped.Return != 2.5 {
		t.Errorf("%+v", stopped)
	}
	if done, half := runs[3], runs[4]; done.State != Done || half.State != Stopped || half.AllSteps != 100 || half.Iterations != 0 {
		t.Errorf("runs of 100 steps: %+v, %+v", done, half)
	}
	half := Run{Row: Row{AllSteps: 100, Iteration: 2, Steps: 20}, Elapsed: 7}
	if left := half.Remaining(); left != 28 {
		t.Errorf("80 steps will take %v s, where 20 took 7 s", left)
	}
	if !sameMap(done.Settings, stopped.Settings) {
		t.Error("runs that differ in nothing do not share their settings")
	}
	write(t, filepath.Join(root, "lies/progress.csv"), header+"0,10,1,1,1,1\n1,20,2,2.5,1,1\n2,30,3,8,1,1\n")
	again, _, err := d.read(t.Context(), d.known)
	if err != nil || again[2].Iteration != 3 || again[2].Return != 8 || again[2].Task != "Hopper-v5" {
		t.Errorf("after another row: %+v, %v", again[2], err)
	}
}

// A run of this machine is running while its learner holds the lock; afterwards its outcome says how it ended.
func TestStateOfAnOwnRun(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "config.yaml"), "env: Hopper-v5\niterations: 4\n")
	write(t, filepath.Join(root, "log.txt"), "time=2026-01-02T03:04:05Z level=WARN msg=\"an actor is slow\" run=r\n")
	lock, err := os.Create(filepath.Join(root, progress.LockName))
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := NewDirectory(store.Local(root))
	want := func(state State, reason string) {
		t.Helper()
		runs, all, err := d.read(t.Context(), d.known)
		if err != nil || len(runs) != 1 || runs[0].State != state || runs[0].Reason != reason ||
			runs[0].Name != "Hopper-v5/"+filepath.Base(root) {
			t.Errorf("%+v, %v; want %s, %q", runs, err, state, reason)
		}
		d.known = all
	}
	want(Running, "")
	lock.Close() // its learner is killed
	want(Stopped, "")
	write(t, filepath.Join(root, progress.OutcomeName), "state: failed\nreason: the disk is full\n")
	want("failed", "the disk is full")
	handler := Handler(Config{Source: d, One: true})
	w := httptest.NewRecorder()
	name := url.Values{"name": {"Hopper-v5/" + filepath.Base(root)}}.Encode()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/data/run?"+name, nil))
	if body := w.Body.String(); !strings.Contains(body, "an actor is slow") || !strings.Contains(body, "the disk is full") {
		t.Errorf("the run's page: %s", body)
	}
	if err := os.Remove(filepath.Join(root, progress.OutcomeName)); err != nil {
		t.Fatal(err)
	}
	want(Stopped, "")
}

// The page's requests, over a store: what they answer is JSON, and nothing outside of a run's directory is ever sent.
func TestFilesStayInTheirRun(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "secret"), "no")
	write(t, filepath.Join(root, "a/config.yaml"), "env: Hopper-v5\n")
	write(t, filepath.Join(root, "a/checkpoints/best.safetensors"), "best")
	write(t, filepath.Join(root, "ab/config.yaml"), "env: Hopper-v5\n")
	handler := Handler(Config{Source: NewDirectory(store.Local(root))})
	get := func(file string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/data/file?"+url.Values{"name": {"a"}, "file": {file}}.Encode(), nil))
		return w.Code, w.Body.String()
	}
	if code, body := get("checkpoints/best.safetensors"); code != 200 || body != "best" {
		t.Errorf("%d %q", code, body)
	}
	for _, file := range []string{"", ".", "../secret", "..", "/etc/passwd", "../ab/config.yaml", "b/config.yaml", "checkpoints"} {
		if code, body := get(file); code != 404 || strings.Contains(body, "env:") {
			t.Errorf("%q: %d %q", file, code, body)
		}
	}
}

// Whatever is in a table, it is read, at once or in parts, and numbers are finite.
func FuzzTable(f *testing.F) {
	f.Add([]byte("iteration,a\n1,2\n3,\n"), 7)
	f.Add([]byte("iteration\n\n\n,,,\n1e999\nnan,inf\n"), 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		whole, parts := table{all: true}, table{all: true}
		parse := func(t *testing.T, to *table, data []byte) {
			if err := to.parse(bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
		}
		parse(t, &whole, data)
		k := &known{run: Run{Row: Row{Return: None}}}
		k.end(data)
		k.configure(data, "runs/r")
		cut = min(max(0, cut), len(data))
		parse(t, &parts, data[:cut])
		parse(t, &parts, data[parts.offset:])
		if whole.rows != parts.rows || whole.offset != parts.offset {
			t.Fatalf("%d rows, %d bytes at once; %d rows, %d bytes in parts", whole.rows, whole.offset, parts.rows, parts.offset)
		}
		for name, values := range whole.values {
			if len(values) < whole.rows || slices.ContainsFunc(values, func(v float32) bool { return math.IsInf(float64(v), 0) }) {
				t.Fatalf("%q: %v", name, values)
			}
		}
	})
}

// A table of many columns and empty lines costs no more memory than its file has bytes, and rows that are none are left out.
func TestHostileTables(t *testing.T) {
	root := t.TempDir()
	var header []string
	for i := range 1000 {
		header = append(header, fmt.Sprint("c", i))
	}
	write(t, filepath.Join(root, "run", "wide"), strings.Join(header, ",")+"\n"+strings.Repeat("\n", 250_000))
	write(t, filepath.Join(root, "run", "blank"), "a,b\n"+strings.Repeat("\n", 250_000)+"1,2\n3\n4,5,6\n7,8\n")
	write(t, filepath.Join(root, "run", "long"), "a,b\n1,2\n3,"+strings.Repeat("4", 1<<20)+"\n5,6\n")
	kept := newColumns(store.Local(root))
	for name, want := range map[string][]float32{"wide": nil, "blank": {1, 7}, "long": {1}} {
		for range 2 {
			found, err := kept.read(t.Context(), "run", name)
			if err != nil || !slices.Equal(found["a"], want) {
				t.Errorf("%s: %d columns, %d rows, %v", name, len(found), len(found["a"]), err)
			}
		}
	}
	if kept.bytes > 1<<20 {
		t.Errorf("%d bytes are kept", kept.bytes)
	}
}

// A reader that stalls keeps nobody else from downloading.
func TestStalledDownload(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a/config.yaml"), "env: Hopper-v5\n")
	write(t, filepath.Join(root, "a/log.txt"), strings.Repeat("x", 64<<20)) // more than sockets hold
	server := httptest.NewServer(Handler(Config{Source: NewDirectory(store.Local(root))}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 2 { // the first is not read before the second is answered
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/data/file?name=a&file=log.txt", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK || response.ContentLength != 64<<20 {
			t.Fatal(response.Status, response.ContentLength)
		}
	}
}

// Nothing in a hidden directory is shown, whatever a run calls its directory.
func TestHiddenDirectories(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a/config.yaml", "a/.git/config", ".ssh/config.yaml", ".ssh/id"} {
		write(t, filepath.Join(root, name), "env: Hopper-v5\n")
	}
	d := NewDirectory(store.Local(root))
	if runs, err := d.Runs(t.Context()); err != nil || len(runs) != 1 || runs[0].Name != "a" {
		t.Errorf("%+v, %v", runs, err)
	}
	s := &server{Config: Config{Source: d}, columns: newColumns(d.Store())}
	for directory, want := range map[string]int{"a": 1, ".ssh": 0} {
		if files, err := s.files(t.Context(), &Run{Directory: directory}); err != nil || len(files) != want {
			t.Errorf("%s: %+v, %v", directory, files, err)
		}
	}
}
