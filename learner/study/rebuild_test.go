package study

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every page of a comparison in docs/results follows from the data that are beside it: written again by the command that
// it names, without training, it and its tables are the same.
func TestPagesFollowFromTheirData(t *testing.T) {
	results, err := filepath.Abs("../../docs/results")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^go run \./learner study (.*)$`)
	pages, err := filepath.Glob(filepath.Join(results, "*", "data"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("pages with data are %q, %v", pages, err)
	}
	t.Chdir(t.TempDir())
	for _, data := range pages {
		name := filepath.Base(filepath.Dir(data))
		page, err := os.ReadFile(filepath.Join(results, name, pageName))
		if os.IsNotExist(err) || !slices.ContainsFunc(comparisons, func(c comparison) bool { return c.name == name }) {
			continue // none of its runs is complete yet, or it is no comparison
		}
		t.Run(name, func(t *testing.T) {
			if err := os.CopyFS(filepath.Join("docs", "results", name), os.DirFS(filepath.Join(results, name))); err != nil {
				t.Fatal(err)
			}
			found := command.FindSubmatch(page)
			if err != nil || found == nil {
				t.Fatalf("the page names no command: %v", err)
			}
			mustStudy(t, append(strings.Fields(string(found[1])), "--only-report")...)
			for _, file := range []string{pageName, "finals.csv"} {
				want, got := read(t, results, name, file), read(t, "docs", "results", name, file)
				if got != want {
					t.Errorf("%s has become\n%s\nit was\n%s", file, got, want)
				}
			}
		})
	}
}
