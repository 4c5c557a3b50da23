package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The table of values in the chart's README.md is made from values.yaml and its comments.
func TestReadme(t *testing.T) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(mustRead(t, filepath.Join(chartDirectory, "values.yaml"))), &document); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| value | default | what |\n|---|---|---|\n")
	describe(&table, document.Content[0], "")
	path := filepath.Join(chartDirectory, "README.md")
	text := mustRead(t, path)
	const begin, end = "<!-- values: go test ./helm -update writes this -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("README.md has no place for the values")
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Error("README.md is not made from this values.yaml: go test -run Readme -update writes it")
	}
}

// describe writes a line for each value, and for each group that says something of itself.
func describe(table *strings.Builder, mapping *yaml.Node, prefix string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name, comment := prefix+key.Value, comment(key)
		group := value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0
		if isLeaf := !group || strings.HasSuffix(name, ".resources"); isLeaf || comment != "" {
			fmt.Fprintf(table, "| `%s` | %s | %s |\n", name, shown(value, group && !isLeaf),
				strings.ReplaceAll(comment, "|", "\\|"))
		}
		if group && !strings.HasSuffix(name, ".resources") {
			describe(table, value, name+".")
		}
	}
}

// comment returns the text that follows `# --` above a value.
func comment(key *yaml.Node) string {
	_, text, _ := strings.Cut(key.HeadComment, "# -- ")
	return strings.ReplaceAll(text, "\n# ", " ")
}

// shown returns a default on one line; that of a group is in the lines below it.
func shown(value *yaml.Node, group bool) string {
	if group {
		return ""
	}
	copied := *value
	flow(&copied)
	data, err := yaml.Marshal(&copied)
	if err != nil {
		return err.Error()
	}
	return "`" + strings.Join(strings.Fields(string(data)), " ") + "`"
}

func flow(node *yaml.Node) {
	node.Style |= yaml.FlowStyle
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.ScalarNode {
		node.Style &^= yaml.FlowStyle
	}
	for _, child := range node.Content {
		flow(child)
	}
}

// Each command of docs/kubernetes is one that the tests in a cluster run.
func TestDocumentationIsRun(t *testing.T) {
	tests, err := filepath.Glob(filepath.Join("e2e", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, path := range tests {
		code.WriteString(mustRead(t, path))
	}
	pages, err := filepath.Glob("../docs/kubernetes/*.md")
	if err != nil || len(pages) != 3 {
		t.Fatal(pages, err)
	}
	for _, path := range pages {
		page := strings.TrimSuffix(filepath.Base(path), ".md")
		for _, found := range regexp.MustCompile(`<!-- kubernetes: (.*) -->`).FindAllStringSubmatch(mustRead(t, path),
			-1) {
			if call := fmt.Sprintf("%q, %q)", page, found[1]); !strings.Contains(code.String(), call) {
				t.Errorf("%s: no test runs %q", path, found[1])
			}
		}
	}
}
