package runs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/store/storetest"
	"github.com/dbqpg/dbqpg/learner/runs"
)

var settings = map[string]string{"env": "Toy-v0", "clip": "5"}

// shape is that of the policies in the tests' checkpoints.
var shape = policy.Shape{Observation: 3, Action: 2, Hidden: []int{4, 5}}

// encoded returns the file of a checkpoint.
func encoded(t testing.TB, iteration uint64) []byte {
	t.Helper()
	params := make([]float64, shape.NumParams())
	params[0] = float64(iteration)
	data, err := runs.Encode(&runs.State{Counters: runs.Counters{Iteration: iteration}, Arrays: map[string][]float64{
		"policy.params": params, "normalizer.count": {101}, "normalizer.mean": {1, 2, 3}, "normalizer.m2": {100, 400, 900},
	}, Networks: map[string][]int{"policy": shape.Network().Sizes}}, settings)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fill puts checkpoints into a store, each with the iteration that a text of the form "KEY: ITERATION" says.
func fill(t testing.TB, s store.Store, texts map[string]uint64) {
	t.Helper()
	for key, iteration := range texts {
		if err := s.Put(t.Context(), key, encoded(t, iteration)); err != nil {
			t.Fatal(err)
		}
	}
}

// files are a run in a directory of its own, and one that workers trained in two epochs, of which the second has not
// found a new best yet.
var files = map[string]uint64{
	"one/checkpoints/best.safetensors":                            5,
	"one/checkpoints/iteration-00000008.safetensors":              8,
	"one/checkpoints/iteration-00000009.safetensors":              9,
	"sweep/a/epoch-9/checkpoints/best.safetensors":                2,
	"sweep/a/epoch-9/checkpoints/iteration-00000004.safetensors":  4,
	"sweep/a/epoch-10/checkpoints/iteration-00000006.safetensors": 6,
	"sweep/a/epoch-x/checkpoints/iteration-00000007.safetensors":  7,

	// A name that three runs have had.
	"sweep/b/epoch-1/checkpoints/best.safetensors":                      1,
	"sweep/b/epoch-1/checkpoints/iteration-00000009.safetensors":        9,
	"sweep/b/id-10/epoch-11/checkpoints/iteration-00000003.safetensors": 3,
	"sweep/b/id-2/epoch-3/checkpoints/best.safetensors":                 5,
}

var cases = []struct {
	name, which string
	iteration   uint64
	err         string
}{
	{"one", "", 5, ""},
	{"one", "best", 5, ""},
	{"one", "newest", 9, ""},
	{"one", "8", 8, ""},
	{"one", "08", 8, ""},
	{"one", "7", 0, `no checkpoint "7": there are best, iteration-00000008, iteration-00000009`},
	{"one", "../best", 0, "no checkpoint"},
	{"one/checkpoints/best.safetensors", "", 5, ""},
	{"one/checkpoints/best.safetensors", "newest", 0, "is one checkpoint"},
	{"sweep/a", "", 2, ""},
	{"sweep/a", "newest", 6, ""},
	{"sweep/a", "4", 4, ""},
	{"sweep/a/epoch-9", "newest", 4, ""},
	{"sweep", "", 0, "is no run"},
	{"sweep/b", "newest", 3, ""},
	{"sweep/b", "", 0, `no checkpoint "best": there are iteration-00000003`},
	{"sweep/b/id-2", "", 5, ""},
}

func TestOpenDirectory(t *testing.T) {
	root := t.TempDir()
	s, err := store.OpenDirectory(root)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, files)
	for _, c := range cases {
		got, err := runs.OpenCheckpoint(t.Context(), filepath.Join(root, c.name), c.which)
		require(t, got, err, c.name+" "+c.which, c.iteration, c.err)
	}
	t.Chdir(filepath.Join(root, "one"))
	for _, name := range []string{".", "checkpoints/..", "../one/"} {
		got, err := runs.OpenCheckpoint(t.Context(), name, "")
		require(t, got, err, name, 5, "")
	}
	if _, err := runs.OpenCheckpoint(t.Context(), "none", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run that is not there: %v", err)
	}
	for name, want := range map[string]string{"../one": "best 8 9", "../sweep/a": "best 4 6", "../sweep/b": "3", "../one/checkpoints/best.safetensors": ""} {
		run, err := runs.Find(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if names, err := run.List(t.Context()); err != nil || strings.Join(names, " ") != want {
			t.Errorf("checkpoints of %s: %v, %v, want %s", name, names, err, want)
		}
	}
	here, err := store.OpenDirectory(".")
	if err != nil {
		t.Fatal(err)
	}
	if newest, err := (runs.Location{Store: here, Key: "."}).Open(t.Context(), "newest"); err != nil || newest.State.Iteration != 9 {
		t.Errorf("the run that a store is: %v", err)
	}
	sweep := runs.Location{Store: s, Key: "sweep"}
	if _, err := sweep.List(t.Context()); !errors.Is(err, runs.ErrNone) {
		t.Errorf("checkpoints of a directory of runs: %v", err)
	}
	if left, _ := os.ReadDir("."); len(left) != 1 {
		t.Errorf("looking for a run has created something: %v", left)
	}
}

func TestDirectory(t *testing.T) {
	root := t.TempDir()
	for run, want := range map[string]string{
		"own":    "own",
		"worker": "worker/epoch-10",
		"again":  "again/id-7/epoch-8",
		"tenth":  "tenth/id-10/epoch-1",
	} {
		for _, made := range []string{"own/checkpoints", "worker/epoch-2", "worker/epoch-10", "again/epoch-12", "again/id-7/epoch-8", "again/id-7/epoch-x",
			"tenth/id-9/epoch-3", "tenth/id-10/epoch-1"} {
			if err := os.MkdirAll(filepath.Join(root, made), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := runs.Directory(filepath.Join(root, run)); err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s is trained in %s (%v), want %s", run, got, err, want)
		}
	}
}

func TestOpenBucket(t *testing.T) {
	const bucket = store.Scheme + storetest.Bucket
	storetest.Start(t).Setenv(t)
	s, err := store.Open(t.Context(), bucket+"/runs")
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, files)
	for _, c := range cases {
		got, err := runs.OpenCheckpoint(t.Context(), bucket+"/runs/"+c.name+"/", c.which)
		require(t, got, err, c.name+" "+c.which, c.iteration, c.err)
	}
	if _, err := runs.OpenCheckpoint(t.Context(), bucket, ""); err == nil || !strings.Contains(err.Error(), "name a run") {
		t.Errorf("a bucket alone: %v", err)
	}
}

func require(t *testing.T, got *runs.Checkpoint, err error, name string, iteration uint64, wrong string) {
	t.Helper()
	if wrong != "" {
		if err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: error %v, want %q", name, err, wrong)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	sum := sha256.Sum256(encoded(t, iteration))
	if got.State.Iteration != iteration || got.SHA256 != hex.EncodeToString(sum[:]) || got.Task() != "Toy-v0" {
		t.Errorf("%s: checkpoint %d of %s, %s, want %d", name, got.State.Iteration, got.Task(), got.Location, iteration)
	}
}

func TestPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, encoded(t, 6), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := runs.OpenCheckpoint(t.Context(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Policy()
	if err != nil {
		t.Fatal(err)
	}
	if p.Shape.Observation != 3 || p.Shape.Action != 2 || p.Params[0] != 6 || !slices.Equal(p.Normalizer.Std, []float64{1, 2, 3}) || p.Normalizer.Clip != 5 {
		t.Errorf("policy %+v", p)
	}
	if _, err := policy.NewActor(p.Shape, p.Params, p.Normalizer); err != nil {
		t.Error(err)
	}
	arrays, recorded, networks := c.State.Arrays, c.Settings, c.State.Networks
	for name, change := range map[string]func(){
		"no parameters":           func() { delete(c.State.Arrays, "policy.params") },
		"no means":                func() { delete(c.State.Arrays, "normalizer.mean") },
		"too few deviations":      func() { c.State.Arrays["normalizer.m2"] = []float64{1} },
		"a parameter too many":    func() { c.State.Arrays["policy.params"] = append(slices.Clone(p.Params), 1) },
		"no network":              func() { delete(c.State.Networks, "policy") },
		"other hidden layers":     func() { c.State.Networks["policy"] = []int{3, 4, 4, 2} },
		"negative hidden layers":  func() { c.State.Networks["policy"] = []int{3, -4, 5, 2} },
		"enormous hidden layers":  func() { c.State.Networks["policy"] = []int{3, 1 << 32, 1 << 32, 2} },
		"a clip that is a letter": func() { c.Settings["clip"] = "x" },
	} {
		c.State.Arrays, c.Settings, c.State.Networks = maps.Clone(arrays), maps.Clone(recorded), maps.Clone(networks)
		change()
		if _, err := c.Policy(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
