package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// series is the rows of one run or one measurement: labels tell it from others, columns hold a number a row, NaN where
// a field is empty.
type series struct {
	labels  map[string]string
	columns map[string][]float64
	record  *record // nil: none is known
	tail    int     // number of last rows that make the final value
	color   int
	dashed  bool // in figures: made by another program
}

// rows returns the number of rows.
func (s *series) rows() int {
	for _, column := range s.columns {
		return len(column)
	}
	return 0
}

// cut drops all rows from the n-th on.
func (s *series) cut(n int) {
	for name, column := range s.columns {
		s.columns[name] = column[:min(n, len(column))]
	}
}

// label returns the values of several labels, joined; unset ones are left out.
func (s *series) label(names ...string) string {
	var all []string
	for _, name := range names {
		if text := s.labels[name]; text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// numbered returns a label's number, NaN if it is none.
func (s *series) numbered(name string) float64 {
	x, err := number(s.labels[name])
	if err != nil {
		return math.NaN()
	}
	return x
}

// matches reports whether every label has one of the given values.
func (s *series) matches(where map[string][]string) bool {
	for name, values := range where {
		if !slices.Contains(values, s.labels[name]) {
			return false
		}
	}
	return true
}

// matching returns the series with these labels.
func matching(all []*series, where map[string][]string) []*series {
	return slices.DeleteFunc(slices.Clone(all), func(s *series) bool { return !s.matches(where) })
}

// grouped returns the series in groups of equal labels, in the order of their first members.
func grouped(all []*series, names ...string) (groups [][]*series) {
	places := map[string]int{}
	for _, s := range all {
		var key strings.Builder
		for _, name := range names {
			fmt.Fprintf(&key, "%q", s.labels[name])
		}
		i, ok := places[key.String()]
		if !ok {
			i = len(groups)
			places[key.String()] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// readSeries reads a CSV file. Rows that agree in the label columns are a series; a label of the form name=column is
// given another name. Of the other columns only the wanted ones are read, or all if none is named.
func readSeries(path string, labels []string, wanted ...string) (all []*series, err error) {
	rows, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	header := rows[0]
	names := make([]string, len(header)) // of the labels, by column
	for _, label := range labels {
		name, column, renamed := strings.Cut(label, "=")
		if !renamed {
			column = name
		}
		i := slices.Index(header, column)
		if i < 0 {
			return nil, fmt.Errorf("%s has no column %q", path, column)
		}
		names[i] = name
	}
	for _, name := range wanted {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("%s has no column %q", path, name)
		}
	}
	found := map[string]*series{}
	for n, row := range rows[1:] {
		key := ""
		for i, name := range names {
			if name != "" {
				key += strconv.Quote(row[i])
			}
		}
		s := found[key]
		if s == nil {
			s = &series{labels: map[string]string{}, columns: map[string][]float64{}}
			found[key] = s
			all = append(all, s)
		}
		for i, text := range row {
			switch {
			case names[i] != "":
				s.labels[names[i]] = text
			case len(wanted) == 0 || slices.Contains(wanted, header[i]):
				value, err := number(text)
				if err != nil {
					return nil, fmt.Errorf("%s:%d: %s: %w", path, n+2, header[i], err)
				}
				s.columns[header[i]] = append(s.columns[header[i]], value)
			}
		}
	}
	return all, nil
}

// readCSV returns the rows of a CSV file, with its header.
func readCSV(path string) ([][]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err == nil && len(rows) == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// readColumns reads the only series of a CSV file without labels, which may have no rows.
func readColumns(path string, wanted ...string) (*series, error) {
	all, err := readSeries(path, nil, wanted...)
	if err == nil && len(all) == 0 {
		return &series{labels: map[string]string{}, columns: map[string][]float64{}}, nil
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// readData reads the tables under the directories of --out, DIRECTORY/TASK/*.csv, with their records.
func (j *job) readData(pattern string, labels []string, wanted ...string) (all []*series, err error) {
	paths, err := filepath.Glob(j.path(filepath.FromSlash(pattern)))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		found, err := readSeries(path, labels, wanted...)
		if err != nil {
			return nil, err
		}
		made, err := readRecord(strings.TrimSuffix(path, ".csv") + ".yaml")
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			s.record, s.labels["path"] = made, path
			if s.labels["task"] == "" {
				s.labels["task"] = filepath.Base(filepath.Dir(path))
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

// number reads the number in a field, NaN if it is empty.
func number(text string) (float64, error) {
	if text == "" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(text, 64)
}

// writeCSV writes a table.
func writeCSV(path string, rows [][]string) error {
	var out bytes.Buffer
	if err := csv.NewWriter(&out).WriteAll(rows); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, out.Bytes())
}

// table returns the rows of a series as text, with a header: the named columns, each with its significant digits (0:
// a whole number).
func (s *series) table(digits map[string]int, names ...string) [][]string {
	rows := [][]string{names}
	for i := range s.columns[names[0]] {
		var row []string
		for _, name := range names {
			row = append(row, rounded(s.columns[name][i], digits[name]))
		}
		rows = append(rows, row)
	}
	return rows
}

// rounded formats a number with significant digits, 0: as a whole number, -1: as few as round-trip. A number that is
// not finite is empty.
func rounded(x float64, digits int) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return ""
	case digits == 0:
		return fmt.Sprintf("%.0f", x)
	case digits < 0:
		return fmt.Sprint(x)
	}
	return strconv.FormatFloat(x, 'g', digits, 64)
}

// figures formats a number for readers, with three significant digits where that takes decimals.
func figures(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case math.Abs(x) >= 100:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// estimate formats a value with its interval for readers.
func estimate(e stats.Estimate) string {
	if !(e.Low < e.High) {
		return figures(e.Value)
	}
	return fmt.Sprintf("%s [%s, %s]", figures(e.Value), figures(e.Low), figures(e.High))
}

// signed formats a difference with its interval.
func signed(e stats.Estimate) string {
	text := estimate(e)
	if e.Value > 0 {
		return "+" + text
	}
	return text
}

// plural formats a count of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// known returns the values that are no NaN: in a batch of segments no episode may have ended.
func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// middle returns the median of the known values, which may be infinite; NaN if there are none.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(known(values)))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// counted returns the texts with how often each occurs, in the order of their first occurrence.
func counted(texts []string) (distinct []string, counts map[string]int) {
	counts = map[string]int{}
	for _, text := range texts {
		if counts[text]++; counts[text] == 1 {
			distinct = append(distinct, text)
		}
	}
	return distinct, counts
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
