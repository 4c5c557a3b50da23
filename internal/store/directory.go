package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

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

// Local returns the store in a directory, which is created by the first file that is put there.
func Local(root string) *Directory { return &Directory{root} }

func (d *Directory) String() string { return d.root }

func (d *Directory) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// do does something with a key's file.
func (d *Directory) do(ctx context.Context, verb, key string, f func(path string) ([]byte, error)) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	data, err := within(ctx, func() ([]byte, error) { return f(d.path(key)) })
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, key, err)
	}
	return data, nil
}

// Put writes a file.
func (d *Directory) Put(ctx context.Context, key string, data []byte) error {
	_, err := d.do(ctx, "put", key, func(name string) ([]byte, error) {
		if err := d.makeParents(path.Dir(key)); err != nil {
			return nil, err
		}
		return nil, atomicfile.Write(name, data)
	})
	return err
}

// Append writes the end of a file, in place.
func (d *Directory) Append(ctx context.Context, key string, data []byte, there int) error {
	_, err := d.do(ctx, "append to", key, func(name string) ([]byte, error) {
		if err := d.makeParents(path.Dir(key)); err != nil {
			return nil, err
		}
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		_, err = file.WriteAt(data[there:], int64(there))
		return nil, errors.Join(err, file.Close())
	})
	return err
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
func (d *Directory) Get(ctx context.Context, key string) ([]byte, error) {
	return d.GetFrom(ctx, key, 0)
}

// GetFrom reads the end of a file.
func (d *Directory) GetFrom(ctx context.Context, key string, offset int64) ([]byte, error) {
	return d.do(ctx, "get", key, func(string) ([]byte, error) {
		file, size, err := d.open(key, offset)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readAll(file, size-offset)
	})
}

// Open opens a file.
func (d *Directory) Open(ctx context.Context, key string, offset int64) (file io.ReadCloser, err error) {
	_, err = d.do(ctx, "open", key, func(string) (_ []byte, err error) {
		file, _, err = d.open(key, offset)
		return nil, err
	})
	return file, err
}

// open opens a regular file, to be read from an offset on. Links that lead out of the store are not followed, since
// others may write to it.
func (d *Directory) open(key string, offset int64) (file *os.File, size int64, err error) {
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	// A pipe would keep Open waiting for its writer.
	if file, err = root.OpenFile(filepath.FromSlash(key), os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// readAll reads a file of at most MaxSize bytes, which is expected to have so many.
func readAll(file io.Reader, expected int64) ([]byte, error) {
	data := bytes.NewBuffer(make([]byte, 0, min(max(0, expected), MaxSize)+bytes.MinRead))
	n, err := data.ReadFrom(io.LimitReader(file, MaxSize+1))
	if err == nil && n > MaxSize {
		err = fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	return data.Bytes(), err
}

// Files walks a directory. It skips files that writers have not finished, and links.
func (d *Directory) Files(ctx context.Context, directory string) ([]File, error) {
	if err := checkDirectory(directory); err != nil {
		return nil, err
	}
	files, err := within(ctx, func() ([]File, error) { return d.files(ctx, directory) })
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", directory, err)
	}
	return files, nil
}

func (d *Directory) files(ctx context.Context, directory string) (files []File, err error) {
	err = filepath.WalkDir(d.path(directory), func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil { // nobody waits any longer
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile, or never created
			return nil
		}
		if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(name, atomicfile.Suffix) {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(d.root, name)
		files = append(files, File{filepath.ToSlash(relative), info.Size(), info.ModTime()})
		return err
	})
	return files, err
}

// Remove removes a file, and the directories that it leaves empty.
func (d *Directory) Remove(ctx context.Context, key string) error {
	_, err := d.do(ctx, "remove", key, func(name string) ([]byte, error) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for parent := path.Dir(key); parent != "."; parent = path.Dir(parent) {
			if os.Remove(d.path(parent)) != nil { // not empty
				break
			}
		}
		return nil, nil
	})
	return err
}
