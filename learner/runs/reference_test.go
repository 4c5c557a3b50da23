package runs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/metrics.md again")

// docs/metrics.md explains every column of progress.csv and evaluations.csv, as the fields' tags do.
func TestReference(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "metrics.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := replaceTable[Row](t, string(page), "progress.csv")
	want = replaceTable[Evaluation](t, want, "evaluations.csv")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s does not have the columns of the tables: write it again with go test ./learner/runs -update", path)
	}
}

// replaceTable returns the page with the table of a file's columns.
func replaceTable[T any](t *testing.T, page, file string) string {
	t.Helper()
	begin, end := "<!-- columns of "+file+": go test ./learner/runs -update writes this -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("the page has no place for the columns of %s", file)
	}
	var table strings.Builder
	table.WriteString("| column | in TensorBoard | meaning |\n|---|---|---|\n")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		help, tag := field.Tag.Get("help"), field.Tag.Get("tag")
		if help == "" {
			t.Errorf("column %s of %s is not explained", field.Name, file)
		}
		if tag != "" {
			tag = "`" + tag + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", field.Tag.Get("csv"), tag, help)
	}
	return before + begin + table.String() + end + after
}
