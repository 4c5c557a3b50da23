package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/store"
)

// conform tests the behaviour that every store must have.
func conform(t *testing.T, s store.Store) {
	ctx := t.Context()
	const run = "exp/Task-v2/npg-uapg-s1"
	if _, err := s.Get(ctx, run+"/epoch-1/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get what is not there: %v", err)
	}
	if keys, err := store.List(ctx, s, run); len(keys) > 0 || err != nil {
		t.Errorf("list of nothing: %q, %v", keys, err)
	}
	if err := s.Remove(ctx, run+"/epoch-1/a"); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
	contents := map[string][]byte{
		run + "/epoch-1/a":              {},
		run + "/epoch-1/checkpoints/b":  bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
		run + "/epoch-2/a":              []byte("two"),
		"exp/Task-v2/npg-uapg-s12/late": []byte("another run"), // its name begins like the first one's
	}
	for key, data := range contents {
		for _, data := range [][]byte{[]byte("before"), data} {
			if err := s.Put(ctx, key, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	for key, want := range contents {
		if got, err := s.Get(ctx, key); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v; want %d", key, len(got), err, len(want))
		}
	}
	for offset, want := range map[int64]string{0: "two", 1: "wo", 3: "", 9: ""} {
		if got, err := s.GetFrom(ctx, run+"/epoch-2/a", offset); err != nil || string(got) != want {
			t.Errorf("from byte %d on: %q, %v", offset, got, err)
		}
	}
	if _, err := s.GetFrom(ctx, run+"/epoch-3/a", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get the end of what is not there: %v", err)
	}
	if files, err := s.Files(ctx, "."); err != nil || len(files) != len(contents) ||
		files[1].Key != run+"/epoch-1/checkpoints/b" ||
		files[1].Size != int64(len(contents[files[1].Key])) || files[1].Modified.IsZero() {
		t.Errorf("all files: %v, %v", files, err)
	}
	list := func(directory string, want ...string) {
		t.Helper()
		if keys, err := store.List(ctx, s, directory); err != nil || !slices.Equal(keys, want) {
			t.Errorf("%s holds %q, %v; want %q", directory, keys, err, want)
		}
	}
	list(run, run+"/epoch-1/a", run+"/epoch-1/checkpoints/b", run+"/epoch-2/a")
	if err := s.Remove(ctx, run+"/epoch-1/checkpoints/b"); err != nil {
		t.Error(err)
	}
	list(run, run+"/epoch-1/a", run+"/epoch-2/a")
	for _, key := range []string{"", ".", "/a", "a/", "a//b", "../a", "a/../../b", `a\b`, "a\x00"} {
		_, get := s.Get(ctx, key)
		_, from := s.GetFrom(ctx, key, 1)
		if _, err := s.Files(ctx, key); key != "." && err == nil {
			t.Errorf("the files of %q", key)
		}
		for _, err := range []error{get, from, s.Put(ctx, key, nil), s.Remove(ctx, key)} {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("key %q: %v", key, err)
			}
		}
	}
	together(t, s)
}

// together has many use a store at once.
func together(t *testing.T, s store.Store) {
	const size = 100_000
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 5 {
				if err := s.Put(t.Context(), fmt.Sprintf("shared/by-%d", i),
					bytes.Repeat([]byte{byte(i)}, size)); err != nil {
					t.Error(err)
				}
				data, err := s.Get(t.Context(), fmt.Sprintf("shared/by-%d", i))
				if err != nil || !bytes.Equal(data, bytes.Repeat([]byte{byte(i)}, size)) {
					t.Errorf("%d bytes, %v", len(data), err)
				}
			}
		})
	}
	writers.Wait()
}

func TestDirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	s, err := store.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != root {
		t.Errorf("called %q", s)
	}
	conform(t, s)

	// What a writer that was killed has left does not count.
	if err := os.WriteFile(filepath.Join(root, "exp", "x"+atomicfile.Suffix), []byte("ha"), 0o644); err != nil {
		t.Fatal(err)
	}
	if keys, err := store.List(t.Context(), s, "exp"); err != nil ||
		slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, "x.") }) {
		t.Errorf("keys %q, %v", keys, err)
	}
}

// A directory that cannot be written to is an error that says which.
func TestDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), filepath.Join(file, "sub")); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("error %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, endpoint, want string }{
		{"", "", "must be a directory, or s3://bucket/prefix"},
		{"gs://bucket", "", "must be a directory, or s3://bucket/prefix"},
		{"s3://", "", "must be like s3://bucket/prefix"},
		{"s3://bucket/../x", "", "must be like s3://bucket/prefix"},
		{"s3://key:secret@bucket/x", "", "AWS_ACCESS_KEY_ID"},
		{"s3://bucket/x", "s3.example.org", "must be like https://s3.example.org"},
		{"s3://bucket/x", "https://key:secret@s3.example.org", "must be like https://s3.example.org"},
		{"s3://bucket/x", "http://127.0.0.1:1", "no keys are given"},
	} {
		t.Setenv("AWS_ENDPOINT_URL_S3", c.endpoint)
		for _, name := range []string{
			"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY",
		} {
			t.Setenv(name, "")
		}
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
		_, err := store.Open(t.Context(), c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v, want %q", c.name, err, c.want)
		}
	}
}

// Neither a link that leads out of a shared directory nor a pipe in it is read, or listed.
func TestDirectoryIsItsOwnFiles(t *testing.T) {
	root, secret := t.TempDir(), filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(secret, []byte("private"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"file.txt": secret, "directory": filepath.Dir(secret)} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s := store.Local(root)
	for _, key := range []string{"file.txt", "directory/key.pem", "directory", "pipe", "."} {
		if data, err := s.Get(ctx, key); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %q, %v", key, data, err)
		}
	}
	if files, err := s.Files(ctx, "."); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

func TestHidden(t *testing.T) {
	for key, want := range map[string]bool{
		"a/b": false, ".lock": false, "a/.lock": false, "a/b.c/d": false, ".ssh/id": true, "a/.ssh/id": true, "a/.b/c/d": true,
	} {
		if store.Hidden(key) != want {
			t.Errorf("%s: %t", key, !want)
		}
	}
}
