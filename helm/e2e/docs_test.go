//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// page returns a page of docs/kubernetes.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubernetes", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block returns the commands that a page has under a name: <!-- kubernetes: NAME --> is before the block.
func block(t *testing.T, in, name string) string {
	t.Helper()
	parts := strings.Split(page(t, in), "\n<!-- kubernetes: "+name+" -->\n```sh\n")
	if len(parts) != 2 {
		t.Fatalf("docs/kubernetes/%s.md has %d blocks %q", in, len(parts)-1, name)
	}
	commands, _, _ := strings.Cut(parts[1], "\n```")
	return commands
}

// run runs a block as it stands.
func (u *user) run(in, name string) string {
	u.t.Helper()
	return u.shell(block(u.t, in, name))
}

// connected runs commands of somebody who has an operator's credentials and a port-forward, as documented.
func (u *user) connected(commands string) string {
	u.t.Helper()
	u.kubectl("rollout", "status", "statefulset", "dbqpg-coordinator", "--timeout", patience.String())
	const listens = "\nuntil coordinator nodes > /dev/null 2>&1; do sleep 0.1; done\n"
	return u.shell(block(u.t, "install", "connect") + listens + commands)
}

// coordinator runs a command of the coordinator's.
func (u *user) coordinator(arguments ...string) string {
	u.t.Helper()
	return u.connected("coordinator " + strings.Join(arguments, " "))
}

// submit submits an experiment.
func (u *user) submit(sweep string) string {
	u.t.Helper()
	return u.connected("coordinator submit - <<END\n" + sweep + "\nEND")
}

// row returns the columns of the one row of the table "When a pod does not start" that has a text in the first of them.
func row(t *testing.T, text string) (columns []string) {
	t.Helper()
	_, table, found := strings.Cut(page(t, "operate"), "\n## When a pod does not start\n")
	if !found {
		t.Fatal("there is no such table")
	}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.Contains(cells[1], text) {
			if columns != nil {
				t.Fatalf("the table has two rows with %q", text)
			}
			columns = cells[1:4]
		}
	}
	if columns == nil {
		t.Fatalf("the table has no row with %q", text)
	}
	return columns
}
