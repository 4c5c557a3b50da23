// Package hub fetches trained policies by name: hub:Hopper-v5. A hub is a directory or a server that has the files of
// make policies: policies.json and, for each policy, an archive of its run's directory.
package hub

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/download"
)

const (
	// Scheme begins the name of a policy that is to be fetched.
	Scheme = "hub:"
	// Variable is the environment variable with the hub's directory or URL.
	Variable = "DBQPG_HUB"

	releases = "https://github.com/dbqpg/dbqpg/releases/latest/download"
	index    = "policies.json"
	maxFile  = 64 << 20 // bytes
)

// entry is a policy in the index: its archive NAME.zip has this SHA-256.
type entry struct {
	SHA256 string `json:"sha256"`
}

// Fetch returns the run's directory of a policy, in the user's cache. It fetches the index, and the archive unless the
// cache has the one with the index's hash.
func Fetch(ctx context.Context, name string) (directory string, err error) {
	hub := cmp.Or(os.Getenv(Variable), releases)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s%s from %s: %w", Scheme, name, hub, err)
		}
	}()
	listed, err := read(ctx, hub, index)
	if err != nil {
		return "", err
	}
	var policies map[string]entry
	if err := json.Unmarshal(listed, &policies); err != nil {
		return "", fmt.Errorf("%s: %w", index, err)
	}
	policy, ok := policies[name]
	if !ok {
		return "", fmt.Errorf("there is no such policy; there are %s",
			strings.Join(slices.Sorted(maps.Keys(policies)), ", "))
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, "dbqpg", filepath.Base(policy.SHA256))
	directory = filepath.Join(parent, filepath.Base(name))
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		return directory, err
	}
	archive, err := read(ctx, hub, name+".zip")
	if err != nil {
		return "", err
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(archive)); sum != policy.SHA256 {
		return "", fmt.Errorf("%s.zip has the SHA-256 %s, not %s", name, sum, policy.SHA256)
	}
	return directory, unpack(archive, parent, directory)
}

// read returns a file of the hub.
func read(ctx context.Context, hub, name string) ([]byte, error) {
	if !strings.Contains(hub, "://") {
		return os.ReadFile(filepath.Join(hub, name))
	}
	data, _, err := download.Get(ctx, strings.TrimSuffix(hub, "/")+"/"+name, maxFile)
	return data, err
}

// unpack writes the archive's files to a directory, which appears when it is complete.
func unpack(archive []byte, parent, directory string) error {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(parent, "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(filepath.Join(work, "run"), files); err != nil {
		return err
	}
	err = os.Rename(filepath.Join(work, "run"), directory)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return nil
	}
	return err
}
