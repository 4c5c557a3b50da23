package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// Directory is a store in a directory, such as a volume that machines share: a file is written under a temporary name,
// synced and renamed.
type Directory struct{ root string }

// OpenDirectory returns the store in a directory, which it creates if necessary.
func OpenDirectory(root string) (*Directory, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of checkpoints: %w", err)
	}
	return &Directory{root}, nil
}

func (d *Directory) String() string { return d.root }

func (d *Directory) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// Put writes a file.
func (d *Directory) Put(_ context.Context, key string, data []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := d.makeParents(path.Dir(key)); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	if err := atomicfile.Write(d.path(key), data); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// makeParents creates a directory and its parents, and syncs the directories that contain them: a file is not durable
// before its directory is.
func (d *Directory) makeParents(directory string) error {
	if directory == "." {
		return nil
	}
	if _, err := os.Stat(d.path(directory)); err == nil {
		return nil
	}
	if err := d.makeParents(path.Dir(directory)); err != nil {
		return err
	}
	if err := os.Mkdir(d.path(directory), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(d.path(directory)))
}

// Get reads a file.
func (d *Directory) Get(_ context.Context, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	file, err := os.Open(d.path(key))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	defer file.Close()
	return readAll(key, file)
}

// readAll reads a file of at most MaxSize bytes.
func readAll(key string, file io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return data, nil
}

// List walks a directory. It skips files that writers have not finished.
func (d *Directory) List(_ context.Context, directory string) ([]string, error) {
	if err := checkKey(directory); err != nil {
		return nil, err
	}
	var keys []string
	err := filepath.WalkDir(d.path(directory), func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile, or never created
			return nil
		}
		if err != nil || entry.IsDir() || strings.HasSuffix(name, atomicfile.Suffix) {
			return err
		}
		relative, err := filepath.Rel(d.root, name)
		keys = append(keys, filepath.ToSlash(relative))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", directory, err)
	}
	return keys, nil
}

// Remove removes a file, and the directories that it leaves empty.
func (d *Directory) Remove(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := os.Remove(d.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	for parent := path.Dir(key); parent != "."; parent = path.Dir(parent) {
		if os.Remove(d.path(parent)) != nil { // not empty
			break
		}
	}
	return nil
}
