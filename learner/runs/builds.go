package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/progress"
)

// Build is the program and the machine that trained a run from an iteration on.
type Build struct {
	Iteration uint64
	Program   string // its commit, and the versions of its numerical libraries
	Machine   string
}

// Builds returns the builds that trained the run in a directory, in order; none for a run that has not begun.
func Builds(directory string) ([]Build, error) {
	path := filepath.Join(directory, progress.BuildsName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var builds []Build
	if err == nil {
		err = yaml.Unmarshal(data, &builds)
	}
	if err != nil {
		return nil, fmt.Errorf("read the builds of the run: %s: %w", path, err)
	}
	return builds, nil
}

// TrainedBy records that a build trains the run in a directory from its iteration on, unless that is known.
func TrainedBy(directory string, build Build) error {
	builds, err := Builds(directory)
	if err != nil {
		return err
	}
	kept := len(builds)
	for kept > 0 && builds[kept-1].Iteration >= build.Iteration { // it was stopped before its first commit
		kept--
	}
	last := kept - 1
	same := last >= 0 && builds[last].Program == build.Program && builds[last].Machine == build.Machine
	if same && kept == len(builds) {
		return nil
	}
	builds = builds[:kept]
	if !same {
		builds = append(builds, build)
	}
	data, err := yaml.Marshal(builds)
	if err == nil {
		err = atomicfile.Write(filepath.Join(directory, progress.BuildsName), data)
	}
	if err != nil {
		return fmt.Errorf("record the build that trains the run: %w", err)
	}
	return nil
}
