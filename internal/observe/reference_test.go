package observe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md again")

// The reference is what the tables say.
func TestReference(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "metrics.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rest, _, found := strings.Cut(string(page), heading)
	if !found {
		t.Fatalf("%s has no heading %q", path, heading)
	}
	want := rest + reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !*update && string(page) != want {
		t.Errorf("%s is not what the tables say: write it again with go test ./internal/observe -update", path)
	}
}

// heading begins the part of docs/metrics.md that is generated from the tables, its last.
const heading = "## Over HTTP\n"

// reference returns that part.
func reference() string {
	var page strings.Builder
	page.WriteString(heading + "\nThe metrics that each process serves under `/metrics` with `--metrics-listen` (see " +
		"[observability](observability.md)).\nThis section is generated from the tables in `internal/observe` by " +
		"`go test ./internal/observe -update`.\n")
	section(&page, "Learner", "A learner also serves the actor metrics, for the actors in its process.",
		new(Learner).table())
	section(&page, "Actor", "", new(Actor).table())
	section(&page, "Coordinator", "", new(Coordinator).table())
	section(&page, "Every process",
		"In addition, `go_*` and `process_*`: the figures of the Go runtime and the operating system, as "+
			"named by Prometheus's client.",
		new(Process).table())
	return page.String()
}

func section(page *strings.Builder, title, text string, table []metric) {
	fmt.Fprintf(page, "\n### %s\n\n", title)
	if text != "" {
		page.WriteString(text + "\n\n")
	}
	page.WriteString("| metric | type | labels | what |\n|---|---|---|---|\n")
	for _, m := range table {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", m.name, m.kind, describe(m), m.help)
	}
}

func describe(m metric) string {
	var texts []string
	for _, l := range m.labels {
		texts = append(texts, "`"+l+"`")
	}
	text := strings.Join(texts, ", ")
	if m.values != nil {
		text += ": " + strings.Join(m.values, ", ")
	}
	return text
}
