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

// origin is what a node notes in its directory beside raft's files.
type origin struct {
	// Directory is the directory's own name, drawn at random when it was empty. One that was lost never comes back under it.
	Directory string `json:"directory"`
	// Founders are the directories, by node, that the cluster began with, this one among them; none if it joined later.
	Founders map[string]string `json:"founders,omitempty"`
}

const originFile = "node.json"

// readOrigin reads a directory's origin; an empty one gets one.
func readOrigin(directory string) (origin, error) {
	path := filepath.Join(directory, originFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		o := origin{Directory: rand.Text()}
		return o, o.write(directory)
	}
	if err != nil {
		return origin{}, err
	}
	var o origin
	if err = json.Unmarshal(data, &o); err == nil && o.Directory == "" {
		err = errors.New("it names no directory")
	}
	if err != nil {
		return origin{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return o, nil
}

func (o origin) write(directory string) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(directory, originFile), append(data, '\n'))
}
