// Package report puts finished runs side by side: a table of final returns and a
// plot of learning curves, beside reference runs where there are some.
package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	tail := c.Returns[max(0, len(c.Returns)-last):]
	sum := 0.0
	for _, r := range tail {
		sum += r
	}
	return sum / float64(len(tail))
}

// ReadRun reads a run directory's progress.csv. Its name, <algorithm>-<estimator>-s<seed>,
// says what it is.
func ReadRun(dir string) (Curve, error) {
	name := filepath.Base(filepath.Clean(dir))
	parts := strings.Split(name, "-")
	if len(parts) != 3 || !strings.HasPrefix(parts[2], "s") {
		return Curve{}, fmt.Errorf("report: %s is not named like a run, <algorithm>-<estimator>-s<seed>", dir)
	}
	curve := Curve{Estimator: strings.ToUpper(parts[1]), Seed: parts[2][1:]}
	err := readRows(filepath.Join(dir, "progress.csv"), []string{"steps", "return_mean"}, func(row []string) error {
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
