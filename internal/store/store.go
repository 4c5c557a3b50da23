// Package store keeps files under keys where several machines find them: in a directory that they share ([Directory])
// or in a bucket of an S3-compatible server ([Bucket]).
//
// A key is a path like "swimmer/Swimmer-v5/trpo-mc-s1/epoch-2/progress.csv". Put is atomic, whatever happens
// meanwhile, and visible to every later Get. Overwriting is not prevented: the learners' keys begin with run and epoch,
// and an epoch has one learner.
package store

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// MaxSize bounds the size of files read, in bytes: some hundred times the largest checkpoint.
const MaxSize = 1 << 30

// Scheme is the prefix of buckets' names: s3://bucket/prefix.
const Scheme = "s3://"

// Store keeps files. It is safe for concurrent use. Operations end with their context, even if the file system hangs.
type Store interface {
	// Put makes data the contents of key, durably once it returns.
	Put(ctx context.Context, key string, data []byte) error
	// Append makes data the contents of key, whose first bytes, as many as there, are there already. Readers may see
	// part of it, and a reader that has the file open sees it grow.
	Append(ctx context.Context, key string, data []byte, there int) error
	// Open reads the contents of key from an offset in bytes on, none if that is its end or beyond it. The error, of
	// Open or the first Read, wraps fs.ErrNotExist if there are none.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// Get returns the contents of key. The error wraps fs.ErrNotExist if there are none.
	Get(ctx context.Context, key string) ([]byte, error)
	// GetFrom returns the contents of key from an offset in bytes on, none if that is its end or beyond it.
	GetFrom(ctx context.Context, key string, offset int64) ([]byte, error)
	// Files returns the files under a directory, in order of their keys; none if there is no such directory. "." is the
	// whole store.
	Files(ctx context.Context, directory string) ([]File, error)
	// Remove removes key. It is not an error if key does not exist.
	Remove(ctx context.Context, key string) error
	// String returns the store's name for display.
	String() string
}

// File is a file of a store.
type File struct {
	Key      string
	Size     int64 // bytes
	Modified time.Time
}

// List returns the keys under a directory of a store, in order; none if there is no such directory.
func List(ctx context.Context, s Store, directory string) (keys []string, err error) {
	files, err := s.Files(ctx, directory)
	for _, f := range files {
		keys = append(keys, f.Key)
	}
	return keys, err
}

// Open returns the store of a name: s3://bucket/prefix, which must exist, or a directory, which it creates if
// necessary.
func Open(ctx context.Context, name string) (Store, error) {
	switch {
	case strings.HasPrefix(name, Scheme):
		return OpenBucket(ctx, name)
	case name == "" || strings.Contains(name, "://"):
		return nil, fmt.Errorf("%q: must be a directory, or s3://bucket/prefix", name)
	}
	return OpenDirectory(name)
}

// OpenExisting is [Open] for readers: a missing directory is an error that wraps fs.ErrNotExist.
func OpenExisting(ctx context.Context, name string) (Store, error) {
	if !strings.HasPrefix(name, Scheme) {
		if _, err := os.Stat(name); err != nil {
			return nil, err
		}
	}
	return Open(ctx, name)
}

// Hidden reports whether a key is in a hidden directory, whose files are for its owner alone.
func Hidden(key string) bool {
	return strings.HasPrefix(key, ".") && strings.Contains(key, "/") || strings.Contains(path.Dir(key), "/.")
}

// Expect returns the store of a name for readers, whether or not it is there yet. A missing directory has no files.
func Expect(name string) (Store, error) {
	if strings.HasPrefix(name, Scheme) {
		return newBucket(name)
	}
	return Local(name), nil
}

// within returns f's result, or ctx's error if that comes first.
func within[T any](ctx context.Context, f func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	var now T
	var failed error
	go func() {
		defer close(done)
		now, failed = f()
	}()
	select {
	case <-done:
		return now, failed
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// checkDirectory returns an error unless directory is a key's or the whole store.
func checkDirectory(directory string) error {
	if directory == "." {
		return nil
	}
	return checkKey(directory)
}

// checkKey returns an error for an invalid key, such as a path that leads out of the store.
func checkKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, "\\\x00") {
		return fmt.Errorf("%q cannot be a key", key)
	}
	return nil
}
