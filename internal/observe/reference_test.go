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
	want := reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what the tables say (%v): write it again with go test ./internal/observe -update", path, err)
	}
}

// reference returns docs/metrics.md: all metrics, from the tables.
func reference() string {
	var page strings.Builder
	page.WriteString(`# Metrics

The metrics that each process serves under ` + "`/metrics`" + ` with ` + "`--metrics-listen`" + ` (see [observability](observability.md)).
This page is generated from the tables in ` + "`internal/observe`" + ` by ` + "`go test ./internal/observe -update`" + `.
`)
	section(&page, "Learner", "A learner also serves the actor metrics, for the actors in its process.", new(Learner).table())
	section(&page, "Actor", "", new(Actor).table())
	section(&page, "Coordinator", "", new(Coordinator).table())
	section(&page, "Every process", "In addition, `go_*` and `process_*`: the figures of the Go runtime and the operating system, as named by Prometheus's client.",
		new(Process).table())
	return page.String()
}

func section(page *strings.Builder, title, text string, table []metric) {
	fmt.Fprintf(page, "\n## %s\n\n", title)
	if text != "" {
		page.WriteString(text + "\n\n")
	}
	page.WriteString("| metric | type | labels | what |\n|---|---|---|---|\n")
	for _, m := range table {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", m.name, m.kind, describe(m.labels), m.help)
	}
}

func describe(labels []label) string {
	var texts []string
	for _, l := range labels {
		text := "`" + l.name + "`"
		if l.values != nil {
			text += ": " + strings.Join(l.values, ", ")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
