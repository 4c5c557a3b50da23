// Package store keeps files under keys where several machines find them: in a directory that they share ([Directory]) or
// in a bucket of an S3-compatible server ([Bucket]).
//
// A key is a path like "swimmer/Swimmer-v2/npg-uapg-s1/epoch-2/progress.csv". What Put has written is there whole or not at
// all, whatever happens meanwhile, and a Get after it sees it. Nobody is kept from overwriting anything: the learners'
// keys begin with run and epoch, and an epoch has one learner.
package store

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
)

// MaxSize bounds a file that is read, in bytes: some hundred times the largest checkpoint.
const MaxSize = 1 << 30

// Scheme begins the names of buckets: s3://bucket/prefix.
const Scheme = "s3://"

// Store keeps files. It is safe for concurrent use.
type Store interface {
	// Put makes data the contents of key, for good once it returns.
	Put(ctx context.Context, key string, data []byte) error
	// Get returns the contents of key. The error wraps fs.ErrNotExist if there are none.
	Get(ctx context.Context, key string) ([]byte, error)
	// List returns the keys under a directory, in order; none if there is no such directory.
	List(ctx context.Context, directory string) ([]string, error)
	// Remove removes key. That it is not there is no error.
	Remove(ctx context.Context, key string) error
	// String is the store's name for people.
	String() string
}

// Open returns the store of a name: s3://bucket/prefix, or a directory, which it creates. It makes sure that the store
// is there.
func Open(ctx context.Context, name string) (Store, error) {
	switch {
	case strings.HasPrefix(name, Scheme):
		return OpenBucket(ctx, name)
	case name == "" || strings.Contains(name, "://"):
		return nil, fmt.Errorf("%q: must be a directory, or s3://bucket/prefix", name)
	}
	return OpenDirectory(name)
}

// checkKey refuses what is no key, such as a path that leads out of the store.
func checkKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, "\\\x00") {
		return fmt.Errorf("%q cannot be a key", key)
	}
	return nil
}
