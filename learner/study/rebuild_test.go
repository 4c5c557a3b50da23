package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every page of docs/results that says how follows from the data that are beside it: written again by the command that
// it names, without measuring, it and its tables are the same.
func TestPagesFollowFromTheirData(t *testing.T) {
	results, err := filepath.Abs("../../docs/results")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^go run \./learner/study (.*)$`)
	pages, err := filepath.Glob(filepath.Join(results, "*", pageName))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS("docs/results/reference", os.DirFS(filepath.Join(results, "reference"))); err != nil {
		t.Fatal(err)
	}
	rebuilt := 0
	for _, path := range pages {
		name := filepath.Base(filepath.Dir(path))
		found := command.FindStringSubmatch(read(t, path))
		if found == nil {
			continue
		}
		rebuilt++
		t.Run(name, func(t *testing.T) {
			if err := os.CopyFS(filepath.Join("docs", "results", name), os.DirFS(filepath.Dir(path))); err != nil {
				t.Fatal(err)
			}
			mustStudy(t, append(strings.Fields(found[1]), "--only-report")...)
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
	if rebuilt < 11 {
		t.Errorf("%d pages of %d say how they are written", rebuilt, len(pages))
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
	if distinct, _ := counted(settings); len(distinct) != len(settings) || len(settings) < 2 {
		t.Errorf("the rows are of %v", settings)
	}
}
