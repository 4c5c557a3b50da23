package runs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/tensorboard"
)

func TestColumns(t *testing.T) {
	columns := progress.Columns[Row]()
	want := strings.Fields(`iteration steps episodes return_mean return_min return_max length_mean kl entropy gradient_norm
		fisher_rank noise lengthscale log_likelihood value_loss explained_variance seconds_sampling seconds_updating`)
	if !slices.Equal(columns[:len(want)], want) {
		t.Errorf("the first columns are %q, want %q", columns[:len(want)], want)
	}
	seen := map[string]bool{}
	for i, name := range columns {
		field := reflect.TypeFor[Row]().Field(i)
		tag := field.Tag.Get("tag")
		if name == "" || seen[name] || tag != "" && seen[tag] || i > 0 && strings.Count(tag, "/") != 1 {
			t.Errorf("field %s: column %q and tag %q must be there, once, the tag as group/name", field.Name, name, tag)
		}
		seen[name], seen[tag] = true, true
		if strings.HasPrefix(field.Name, "Seconds") != strings.HasPrefix(name, "seconds_") {
			t.Errorf("field %s: a column is wall clock where its name begins with seconds_, this one is %q", field.Name, name)
		}
	}
}

// rowOf returns a row all of whose numbers are made from the iteration's.
func rowOf(iteration uint64) Row {
	row := NewRow()
	row.Iteration, row.Steps, row.Episodes = iteration, 15000*iteration, 15*iteration
	row.ReturnMean, row.KL = 1/float64(iteration), math.Pi*1e-9
	return row
}

func TestRowSurvivesItsLine(t *testing.T) {
	row := rowOf(3)
	row.ReturnMin, row.ReturnMax, row.Entropy = math.Inf(-1), math.MaxFloat64, math.Copysign(0, -1)
	got, err := parseLine[Row](strings.TrimSuffix(line(row), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want, got := fmt.Sprintf("%b", row), fmt.Sprintf("%b", got); got != want {
		t.Errorf("read back %s, want %s", got, want)
	}
}

func TestScalarsLeaveOutWhatDoesNotApply(t *testing.T) {
	row := NewRow()
	row.Steps, row.Noise = 15000, 0.5
	want := []tensorboard.Scalar{{Tag: "run/steps", Value: 15000}, {Tag: "run/episodes", Value: 0}, {Tag: "kernel/noise", Value: 0.5}}
	if got := withoutDescriptions(Scalars(row)); !reflect.DeepEqual(got, want) {
		t.Errorf("scalars %v, want %v", got, want)
	}
}

func TestScalarsBySteps(t *testing.T) {
	row := NewRow()
	row.Steps, row.ReturnMean, row.Noise = 15000, 7, 0.5
	steps, scalars := ScalarsBySteps(row)
	if want := []tensorboard.Scalar{{Tag: "by_steps/return_mean", Value: 7}}; steps != 15000 || !reflect.DeepEqual(withoutDescriptions(scalars), want) {
		t.Errorf("scalars %v at step %d, want %v at 15000", scalars, steps, want)
	}
	if steps, scalars = ScalarsBySteps(Evaluation{Steps: 30000}); steps != 30000 || len(scalars) != 12 {
		t.Errorf("%d scalars of an evaluation at step %d, want 12 at 30000", len(scalars), steps)
	}
}

func withoutDescriptions(scalars []tensorboard.Scalar) []tensorboard.Scalar {
	for i := range scalars {
		scalars[i].Description = ""
	}
	return scalars
}

// lines returns the text of a file with those iterations.
func lines(iterations ...uint64) string {
	text := header[Row]()
	for _, i := range iterations {
		text += line(rowOf(i))
	}
	return text
}

func TestOpenCSVCuts(t *testing.T) {
	torn := line(rowOf(4))
	other := strings.Replace(lines(1), "return_mean", "reward", 1)
	for _, c := range []struct {
		name, before string
		next         uint64
		after        string
		err          string
	}{
		{"no file yet", "", 1, lines(), ""},
		{"killed in the header", header[Row]()[:20], 1, lines(), ""},
		{"nothing to cut", lines(1, 2), 3, lines(1, 2), ""},
		{"rows to be done again", lines(1, 2, 3), 2, lines(1), ""},
		{"the first iteration", lines(0, 1), 1, lines(0), ""},
		{"from the beginning", lines(0, 1), 0, lines(), ""},
		{"a torn last line", lines(1, 2, 3) + torn[:5], 4, lines(1, 2, 3), ""},
		{"a last line but for its newline", lines(3) + torn[:len(torn)-1], 5, lines(3), ""},
		{"a last line of zero bytes", lines(1) + "\x00\x00\n", 9, lines(1), ""},
		{"a torn line among rows to be done again", lines(1, 2, 3) + torn[:9], 2, lines(1), ""},
		{"a row is missing", lines(1, 3), 9, lines(1, 3), ""},
		{"other columns", other, 2, other, "columns"},
		{"no table at all", "hello\n", 1, "hello\n", "columns"},
		{"text without an end", "hello", 1, "hello", "columns"},
		{"damage in the middle", lines(1) + "2,x\n" + line(rowOf(3)), 4, lines(1) + "2,x\n" + line(rowOf(3)), "line 3"},
		{"disorder", lines(2, 1, 3), 9, lines(2, 1, 3), "iteration 1 after 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "progress.csv")
			if c.before != "" {
				if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			file, kept, err := OpenCSV[Row](path, c.next)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v, want one that names the file and says %q", err, c.err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				defer file.Close()
				if want := strings.Count(c.after, "\n") - 1; len(kept) != want {
					t.Errorf("kept %d rows, want %d", len(kept), want)
				}
				if err := file.Append(rowOf(c.next)); err != nil {
					t.Fatal(err)
				}
				c.after += line(rowOf(c.next))
			}
			if data, _ := os.ReadFile(path); string(data) != c.after {
				t.Errorf("file holds\n%s, want\n%s", data, c.after)
			}
		})
	}
}

func TestAppendToFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &CSV[Row]{file: full}
	defer c.Close()
	if err := c.Append(rowOf(12)); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "iteration 12") {
		t.Errorf("Append to a full disk: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(lines(1, 2, 3)), uint64(2))
	f.Add([]byte(lines(1)+"2,"), uint64(2))
	f.Add([]byte(lines()+"\n\n"), uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, next uint64) {
		rows, size, err := parse[Row](data, next)
		if err != nil || size == 0 {
			return
		}
		repaired := string(data[:size])
		rowsAgain, again, err := parse[Row](data[:size], next)
		if err != nil || again != size || len(rowsAgain) != len(rows) {
			t.Errorf("cutting twice: %q with %d rows, then %d bytes with %d, %v", repaired, len(rows), again, len(rowsAgain), err)
		}
		if !strings.HasSuffix(repaired, "\n") || strings.Count(repaired, "\n") != len(rows)+1 {
			t.Errorf("%q does not hold %d whole rows", repaired, len(rows))
		}
	})
}
