// Package report puts finished runs side by side: a table of final returns and a
// plot of learning curves, beside reference runs where there are some.
package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/study/stats"
)

// Curve is one run's mean episode return, an entry an iteration.
type Curve struct {
	Estimator string // MC, DBQPG or UAPG
	Seed      string
	Steps     []float64 // environment steps so far; empty where unknown
	Returns   []float64
}

// Final is the mean return over the last iterations (all, if there are fewer).
func (c Curve) Final(last int) float64 {
	return stats.Mean(c.Returns[max(0, len(c.Returns)-last):])
}

// ReadRun reads a run directory's progress.csv. Its config.yaml says what it is, or where
// there is none its name, <algorithm>-<estimator>-s<seed>.
func ReadRun(dir string) (Curve, error) {
	curve, err := identify(dir)
	if err != nil {
		return curve, err
	}
	err = readRows(filepath.Join(dir, "progress.csv"), []string{"steps", "return_mean"}, func(row []string) error {
		steps, errSteps := strconv.ParseFloat(row[0], 64)
		mean, errMean := strconv.ParseFloat(row[1], 64)
		curve.Steps = append(curve.Steps, steps)
		curve.Returns = append(curve.Returns, mean)
		return errors.Join(errSteps, errMean)
	})
	if err == nil && len(curve.Returns) == 0 {
		err = fmt.Errorf("report: %s has no finished iteration", dir)
	}
	return curve, err
}

// identify returns the empty curve of a run directory.
func identify(dir string) (Curve, error) {
	path := filepath.Join(dir, config.FileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		name := strings.Split(filepath.Base(filepath.Clean(dir)), "-")
		if len(name) != 3 || !strings.HasPrefix(name[2], "s") {
			return Curve{}, fmt.Errorf("report: %s is no run: it has no %s and is not named like one, <algorithm>-<estimator>-s<seed>", dir, config.FileName)
		}
		return Curve{Estimator: strings.ToUpper(name[1]), Seed: name[2][1:]}, nil
	}
	var settings struct{ Estimator, Seed string }
	if err == nil {
		err = yaml.Unmarshal(data, &settings)
	}
	if err == nil && (settings.Estimator == "" || settings.Seed == "") {
		err = errors.New("no estimator, or no seed")
	}
	if err != nil {
		return Curve{}, fmt.Errorf("report: %s: %w", path, err)
	}
	return Curve{Estimator: strings.ToUpper(settings.Estimator), Seed: settings.Seed}, nil
}

// ReadReference reads curves from a CSV file with the columns env, estimator, seed,
// iteration and avg_return, a row an iteration, those of one task.
func ReadReference(path, env string) ([]Curve, error) {
	var curves []Curve
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
			curves = append(curves, Curve{Estimator: row[1], Seed: row[2]})
		}
		mean, err := strconv.ParseFloat(row[3], 64)
		curves[i].Returns = append(curves[i].Returns, mean)
		return err
	})
	return curves, err
}

// Columns reads the named columns of a progress.csv, as numbers; NaN where there is none.
func Columns(path string, names ...string) ([][]float64, error) {
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
		return fmt.Errorf("report: %w", err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	header, err := reader.Read()
	if err != nil {
		return fmt.Errorf("report: %s: %w", path, err)
	}
	places := make([]int, len(columns))
	for i, column := range columns {
		places[i] = -1
		for j, name := range header {
			if name == column {
				places[i] = j
			}
		}
		if places[i] < 0 {
			return fmt.Errorf("report: %s has no column %q", path, column)
		}
	}
	picked := make([]string, len(columns))
	for {
		row, err := reader.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("report: %s: %w", path, err)
		}
		for i, place := range places {
			picked[i] = row[place]
		}
		if err := each(picked); err != nil {
			line, _ := reader.FieldPos(0)
			return fmt.Errorf("report: %s:%d: %w", path, line, err)
		}
	}
}
