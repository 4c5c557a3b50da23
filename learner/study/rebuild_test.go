package study

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every page of docs/results that says how follows from the data that are beside it: written again by the command that it
// names, without measuring, it and its tables are the same.
func TestPagesFollowFromTheirData(t *testing.T) {
	results, err := filepath.Abs("../../docs/results")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^go run \./learner study (.*)$`)
	rebuilt := []string{"wall-clock", "best", "calibration", "gradient-quality"}
	for _, c := range comparisons {
		rebuilt = append(rebuilt, c.name)
	}
	pages, err := filepath.Glob(filepath.Join(results, "*", pageName))
	if err != nil || len(pages) < 6 {
		t.Fatalf("pages are %q, %v", pages, err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS("docs/results/reference", os.DirFS(filepath.Join(results, "reference"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		name := filepath.Base(filepath.Dir(path))
		page := read(t, path)
		found := command.FindStringSubmatch(page)
		if found == nil || !slices.Contains(rebuilt, strings.Fields(found[1])[0]) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if err := os.CopyFS(filepath.Join("docs", "results", name), os.DirFS(filepath.Dir(path))); err != nil {
				t.Fatal(err)
			}
			arguments := strings.Fields(found[1])
			if arguments[0] != "best" && arguments[0] != "calibration" { // which never measure
				arguments = append(arguments, "--only-report")
			}
			mustStudy(t, arguments...)
			tables, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.csv"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range append(tables, path) {
				if want, got := read(t, path), read(t, "docs", "results", name, filepath.Base(path)); got != want {
					t.Errorf("%s has become\n%s\nit was\n%s", filepath.Base(path), got, want)
				}
			}
		})
	}
}

// Rows of a task and an algorithm follow one another, though the task's controls were trained after other tasks.
func TestRowsOfATaskAreTogether(t *testing.T) {
	var settings []string
	for _, row := range rows(t, "../../docs/results/curves", "finals.csv") {
		if s := row[0] + " " + row[1]; len(settings) == 0 || settings[len(settings)-1] != s {
			settings = append(settings, s)
		}
	}
	if repeats(settings) || len(settings) < 2 {
		t.Errorf("the rows are of %v", settings)
	}
}
