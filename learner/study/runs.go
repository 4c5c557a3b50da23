package study

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/rundir"
)

// curve is one run's mean episode return, an entry an iteration. Entry t is that of the policy after t steps, though
// some tables, the reference's and those of earlier builds, count it as iteration t+1.
type curve struct {
	estimator string // MC, DBQPG or UAPG
	seed      string
	returns   []float64
}

// final returns the mean return over the last iterations (all, if there are fewer).
func (c curve) final(last int) float64 {
	return stats.Mean(c.returns[max(0, len(c.returns)-last):])
}

// readRun reads a run directory's progress.csv. Its config.yaml says what it is, or where
// there is none its name, <algorithm>-<estimator>-s<seed>.
func readRun(dir string) (c curve, err error) {
	if c, err = identify(dir); err != nil {
		return c, err
	}
	columns, err := readColumns(rundir.Progress(dir), "return_mean")
	if err == nil && len(columns[0]) == 0 {
		err = fmt.Errorf("%s has no finished iteration", dir)
	}
	c.returns = columns[0]
	return c, err
}

// identify returns the empty curve of a run directory.
func identify(dir string) (curve, error) {
	path := filepath.Join(dir, config.FileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		name := strings.Split(filepath.Base(filepath.Clean(dir)), "-")
		if len(name) != 3 || !strings.HasPrefix(name[2], "s") {
			return curve{}, fmt.Errorf("%s is no run: it has no %s and is not named like one, <algorithm>-<estimator>-s<seed>", dir, config.FileName)
		}
		return curve{estimator: strings.ToUpper(name[1]), seed: name[2][1:]}, nil
	}
	var settings struct{ Estimator, Seed string }
	if err == nil {
		err = yaml.Unmarshal(data, &settings)
	}
	if err == nil && (settings.Estimator == "" || settings.Seed == "") {
		err = errors.New("no estimator, or no seed")
	}
	if err != nil {
		return curve{}, fmt.Errorf("%s: %w", path, err)
	}
	return curve{estimator: strings.ToUpper(settings.Estimator), seed: settings.Seed}, nil
}

// readReference reads curves from a CSV file with the columns env, estimator, seed,
// iteration and avg_return, a row an iteration, those of one task.
func readReference(path, env string) ([]curve, error) {
	var curves []curve
	index := map[[2]string]int{}
	err := readRows(path, []string{"env", "estimator", "seed", "avg_return"}, func(row []string) error {
		if row[0] != env {
			return nil
		}
		key := [2]string{row[1], row[2]}
		i, known := index[key]
		if !known {
			i = len(curves)
			index[key] = i
			curves = append(curves, curve{estimator: row[1], seed: row[2]})
		}
		mean, err := strconv.ParseFloat(row[3], 64)
		curves[i].returns = append(curves[i].returns, mean)
		return err
	})
	return curves, err
}

// readColumns reads the named columns of a progress.csv, as numbers; NaN where there is none.
func readColumns(path string, names ...string) ([][]float64, error) {
	columns := make([][]float64, len(names))
	err := readRows(path, names, func(row []string) error {
		for i, text := range row {
			value := math.NaN()
			if text != "" {
				var err error
				if value, err = strconv.ParseFloat(text, 64); err != nil {
					return fmt.Errorf("%s: %w", names[i], err)
				}
			}
			columns[i] = append(columns[i], value)
		}
		return nil
	})
	return columns, err
}

// readRows calls each with the named columns of a CSV file's rows.
func readRows(path string, columns []string, each func(row []string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	header, err := reader.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	places := make([]int, len(columns))
	for i, column := range columns {
		if places[i] = slices.Index(header, column); places[i] < 0 {
			return fmt.Errorf("%s has no column %q", path, column)
		}
	}
	picked := make([]string, len(columns))
	for {
		row, err := reader.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i, place := range places {
			picked[i] = row[place]
		}
		if err := each(picked); err != nil {
			line, _ := reader.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
}
