// Package scratch makes temporary directories that do not stay when their process is killed: the next process that
// makes one of the same kind removes them.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Directory is a temporary directory. Its process holds a lock on it, which ends with the process, however that ends.
type Directory struct {
	// Path is where it is.
	Path string
	lock *os.File
}

// New makes an empty directory of a kind, and removes those of the kind whose processes have ended.
func New(kind string) (*Directory, error) {
	pattern := "dbqpg." + kind + ".*"
	left, err := filepath.Glob(filepath.Join(os.TempDir(), pattern))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if d, err := hold(path); err == nil { // nobody else does
			_ = d.Close() // others' rights may forbid it
		}
	}
	for {
		path, err := os.MkdirTemp("", pattern)
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		d, err := hold(path)
		switch {
		case err == nil:
			return d, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, os.ErrNotExist):
			// another process has taken it for a left one
			return nil, errors.Join(fmt.Errorf("lock a temporary directory: %w", err), os.Remove(path))
		}
	}
}

// hold locks a directory.
func hold(path string) (*Directory, error) {
	lock, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = os.Stat(path) // it may have been removed before it was locked
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Directory{path, lock}, nil
}

// Close removes the directory.
func (d *Directory) Close() error { return errors.Join(os.RemoveAll(d.Path), d.lock.Close()) }
