// Package progress compares what runs learned, by the tables that they leave (progress.csv).
package progress

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
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
				differences = append(differences, fmt.Errorf("iteration %d: %s is %s and not %s", i+1, column, got[i][j], want[i][j]))
			}
		}
	}
	return errors.Join(differences...)
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
				return nil, fmt.Errorf("%s: iteration %d has no %s", path, i+1, column)
			}
			rows[i] = append(rows[i], record[at])
		}
	}
	return rows, nil
}
