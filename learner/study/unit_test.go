package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/learner/runs"
)

var sample = measured{"g": {1, 2.5, -3}, "none": {}}

func TestDoMeasuresOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "unit-1.5")
	settings := conditions{"seed": "1"}.with("n", 1000)
	count := 0
	measure := func() (measured, error) { count++; return sample, nil }
	for range 2 {
		got, err := measureOnce(path, settings, measure)
		if err != nil || !reflect.DeepEqual(got, sample) {
			t.Fatalf("measured %v, %v", got, err)
		}
	}
	if count != 1 {
		t.Errorf("measured %d times", count)
	}
}

func TestUnitOfOtherSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unit")
	if _, err := measureOnce(path, conditions{"n": "1000", "seed": "1", "old": "x"},
		func() (measured, error) { return sample, nil }); err != nil {
		t.Fatal(err)
	}
	_, err := measureOnce(path, conditions{"n": "2000", "seed": "1"},
		func() (measured, error) { panic("measured again") })
	var mismatch *runs.MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("error %v, want a mismatch", err)
	}
	for _, want := range []string{path, "n was 1000 and is now 2000", "old was x and is now not set", "--out"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "seed") {
		t.Errorf("error %q names what is the same", err)
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unit")
	failure := errors.New("no samples")
	if _, err := measureOnce(path, nil, func() (measured, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if _, err := loadUnit(path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unit that failed: %v", err)
	}
}

func TestDamagedUnit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unit")
	if _, err := measureOnce(path, nil, func() (measured, error) { return sample, nil }); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path+unitSuffix, 20); err != nil {
		t.Fatal(err)
	}
	if _, err := measureOnce(path, nil, nil); err == nil || !strings.Contains(err.Error(), "is damaged") ||
		!strings.Contains(err.Error(), "remove it") {
		t.Errorf("error %v", err)
	}
}
