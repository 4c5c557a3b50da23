// Package progresstest compares what runs learned, by the tables (progress.csv) and the checkpoints that they leave.
package progresstest

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/dbqpg/dbqpg/learner/runs"
)

// learned are the columns that say what was learned, and not how long it took or who played.
var learned = []string{"iteration", "steps", "return_mean", "kl"}

// Compare compares two tables of as many iterations. Its error names each cell that differs.
func Compare(iterations int, path, wanted string) error {
	got, err := read(path)
	if err != nil {
		return err
	}
	want, err := read(wanted)
	if err != nil {
		return err
	}
	if len(got) != iterations || len(want) != iterations {
		return fmt.Errorf("%d and %d iterations, where %d were played", len(got), len(want), iterations)
	}
	var differences []error
	for i := range got {
		for j, column := range learned {
			if got[i][j] != want[i][j] {
				differences = append(differences,
					fmt.Errorf("iteration %d: %s is %s and not %s", i, column, got[i][j], want[i][j]))
			}
		}
	}
	return errors.Join(differences...)
}

// CompareStates compares the checkpoints that two runs have of an iteration, in their directories: the policy's
// parameters and all else that was learned, bit by bit. Its error names each array that differs.
func CompareStates(iteration uint64, directory, wanted string) error {
	got, err := readState(iteration, directory)
	if err != nil {
		return err
	}
	want, err := readState(iteration, wanted)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(want))
	if !slices.Equal(slices.Sorted(maps.Keys(got)), names) || len(names) == 0 {
		return fmt.Errorf("%s has other arrays than %q", directory, names)
	}
	var differences []error
	for _, name := range names {
		if !slices.EqualFunc(got[name], want[name],
			func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
			differences = append(differences, fmt.Errorf("%s differs in iteration %d", name, iteration))
		}
	}
	return errors.Join(differences...)
}

func readState(iteration uint64, directory string) (map[string][]float64, error) {
	path := filepath.Join(directory, "checkpoints", runs.FileName(iteration))
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	state, _, err := runs.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return state.Arrays, nil
}

// read reads the learned columns of a table, all of which have to be there.
func read(path string) ([][]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%s: no table", path)
	}
	rows := make([][]string, len(records)-1)
	for _, column := range learned {
		at := slices.Index(records[0], column)
		if at < 0 {
			return nil, fmt.Errorf("%s has no column %s", path, column)
		}
		for i, record := range records[1:] {
			if record[at] == "" {
				return nil, fmt.Errorf("%s: iteration %d has no %s", path, i, column)
			}
			rows[i] = append(rows[i], record[at])
		}
	}
	return rows, nil
}
