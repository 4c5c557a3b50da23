// Package atomicfile replaces files atomically: at any moment and after any crash a reader sees either the
// old contents or the new, never a mixture.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Suffix is the suffix of files that Write has not finished. A process killed in Write leaves one behind.
const Suffix = ".tmp"

// Write makes data the contents of the file at path: it writes a temporary file beside it, syncs that to the
// disk, renames it to path and syncs the directory, so that the new contents also outlive a power failure.
//
// After an error the file is unchanged and the temporary one is gone. The directory must exist.
// Writers of the same path must not run concurrently.
func Write(path string, data []byte) error { return write(path, data, 0o644) }

// WritePrivate is Write for a file that only its owner may read, from the first moment.
func WritePrivate(path string, data []byte) error { return write(path, data, 0o600) }

func write(path string, data []byte, mode fs.FileMode) error {
	temporary := path + Suffix
	if err := writeSynced(temporary, data, mode); err != nil {
		return errors.Join(err, removeIfThere(temporary))
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(err, removeIfThere(temporary))
	}
	return SyncDir(filepath.Dir(path))
}

// writeSynced creates or overwrites a file. A full disk may cause an error at the write, the sync or the close.
func writeSynced(path string, data []byte, mode fs.FileMode) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir makes the creation, renaming and removal of files in a directory survive a power failure.
func SyncDir(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	err = directory.Sync()
	if closing := directory.Close(); err == nil {
		err = closing
	}
	return err
}

// Clean removes the unfinished files of killed writers in a directory. No Write may be in progress there.
func Clean(directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), Suffix) {
			continue
		}
		if err := os.Remove(filepath.Join(directory, entry.Name())); err != nil {
			return fmt.Errorf("remove an unfinished file: %w", err)
		}
	}
	return nil
}
