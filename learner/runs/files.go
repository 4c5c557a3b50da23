package runs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/progress"
)

// The names of a run's files, relative to its directory, besides config.FileName.
const (
	ProgressName    = progress.RowsName
	EvaluationsName = progress.EvaluationsName
	ShutOutName     = "shut-out.json"
	CheckpointsName = "checkpoints"

	stepsName = "environment_steps" // TensorBoard shows this directory as a run of its own
)

// The names of files in the directory of checkpoints.
const (
	filePrefix = "iteration-"
	fileSuffix = ".safetensors"
	// BestName is the name of the best state's file.
	BestName = BestCheckpoint + fileSuffix
)

// Checkpoints returns the directory of a run's checkpoints.
func Checkpoints(directory string) string { return filepath.Join(directory, CheckpointsName) }

// ProgressFile returns the file of a run's rows.
func ProgressFile(directory string) string { return filepath.Join(directory, ProgressName) }

// Evaluations returns the file of a run's evaluations.
func Evaluations(directory string) string { return filepath.Join(directory, EvaluationsName) }

// ShutOut returns the file of the actors that are blocked from a run.
func ShutOut(directory string) string { return filepath.Join(directory, ShutOutName) }

// FileName returns the name of an iteration's file in a directory of checkpoints.
func FileName(iteration uint64) string {
	return fmt.Sprintf("%s%08d%s", filePrefix, iteration, fileSuffix)
}

// iterationIn returns the iteration of a checkpoint that has one in its file's name.
func iterationIn(name string) (iteration uint64, ok bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, filePrefix), fileSuffix)
	iteration, err := strconv.ParseUint(digits, 10, 64)
	return iteration, err == nil && name == FileName(iteration)
}

// Iterations returns the iterations that have checkpoints in a directory, which need not exist, in order, judging by
// names alone.
func Iterations(directory string) ([]uint64, error) {
	entries, err := os.ReadDir(directory)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("look for checkpoints: %w", err)
	}
	var found []uint64
	for _, entry := range entries {
		if iteration, ok := iterationIn(entry.Name()); ok {
			found = append(found, iteration)
		}
	}
	slices.Sort(found)
	return found, nil
}

// Newest returns the iteration of the newest checkpoint in a directory, judging by names alone; false if there is none.
func Newest(directory string) (iteration uint64, ok bool, err error) {
	all, err := Iterations(directory)
	if err != nil || len(all) == 0 {
		return 0, false, err
	}
	return all[len(all)-1], true, nil
}

// Files returns the names of the files with which another machine resumes a run, relative to its directory; the newest
// checkpoint is the last.
func Files(directory string) (names []string, err error) {
	iterations, err := Iterations(Checkpoints(directory))
	if err != nil {
		return nil, err
	}
	names = []string{config.FileName, ProgressName, EvaluationsName}
	for _, name := range []string{ShutOutName, path.Join(CheckpointsName, BestName)} {
		if _, err := os.Stat(filepath.Join(directory, name)); err == nil {
			names = append(names, name)
		}
	}
	for _, iteration := range iterations {
		names = append(names, path.Join(CheckpointsName, FileName(iteration)))
	}
	return names, nil
}
