package raftnode

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// identity is what a node records in its directory beside raft's files.
type identity struct {
	// Directory is the directory's own name, drawn at random when it was empty. A replacement has another name.
	Directory string `json:"directory"`
	// Founders are the directories, by node, that the cluster started with, including this one; empty if it joined later.
	Founders map[string]string `json:"founders,omitempty"`
}

const identityFile = "node.json"

// readIdentity reads a directory's identity, or creates one for an empty directory.
func readIdentity(directory string) (identity, error) {
	path := filepath.Join(directory, identityFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := identity{Directory: rand.Text()}
		return id, id.write(directory)
	}
	if err != nil {
		return identity{}, err
	}
	var id identity
	if err = json.Unmarshal(data, &id); err == nil && id.Directory == "" {
		err = errors.New("it names no directory")
	}
	if err != nil {
		return identity{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return id, nil
}

func (id identity) write(directory string) error {
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(directory, identityFile), append(data, '\n'))
}
