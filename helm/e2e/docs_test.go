//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sectionOf returns a section of docs/kubernetes.md, without its heading.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, content, found := strings.Cut(string(document), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/kubernetes.md has no section %q", heading)
	}
	content, _, _ = strings.Cut(content, "\n## ")
	return content
}

// documented returns the one block of a section of docs/kubernetes.md in which there is a text.
func documented(t *testing.T, section, text string) string {
	t.Helper()
	var blocks []string
	for i, part := range strings.Split(sectionOf(t, section), "\n```") { // each second part is a block, which begins with its language
		if _, block, _ := strings.Cut(part, "\n"); i%2 == 1 && strings.Contains(block, text) {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) != 1 {
		t.Fatalf("%q has %d blocks with %q", section, len(blocks), text)
	}
	return blocks[0]
}

// changed is documented with a name of the user's namespace, and changes: pairs of a text that must be there and what takes its place.
func (u *user) changed(section, text string, changes ...string) string {
	u.t.Helper()
	block := documented(u.t, section, text)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(block, changes[i]) {
			u.t.Fatalf("%q is not in:\n%s", changes[i], block)
		}
		block = strings.ReplaceAll(block, changes[i], changes[i+1])
	}
	block = strings.ReplaceAll(block, "-n training", "-n "+u.namespace)
	return strings.ReplaceAll(block, ".training.svc", "."+u.namespace+".svc")
}

// follow runs the commands of changed, and returns what they say.
func (u *user) follow(section, text string, changes ...string) string {
	u.t.Helper()
	return u.shell(u.changed(section, text, changes...))
}

// checkOut gives the user a checkout like this one to write in.
func (u *user) checkOut() {
	u.t.Helper()
	original, err := filepath.Abs(u.checkout)
	if err != nil {
		u.t.Fatal(err)
	}
	changes := u.t.TempDir()
	u.shell("cd " + changes + "; mkdir upper work merged; mount -t overlay overlay merged -o lowerdir=" + original + ",upperdir=upper,workdir=work")
	u.t.Cleanup(func() {
		u.checkout = original // to be in it would keep it mounted
		if _, err := u.try("sh", "-c", "umount "+changes+"/merged"); err != nil {
			u.t.Error(err)
		}
	})
	u.checkout = filepath.Join(changes, "merged")
}

// coordinator runs the command line in the first coordinator's pod.
func (u *user) coordinator(arguments ...string) string {
	u.t.Helper()
	return u.kubectl(append([]string{"exec", "-i", "dbqpg-coordinator-0", "--", "coordinator"}, arguments...)...)
}

// row returns the columns of the one row of the table "When a pod does not start" that has a text in the first of them.
func row(t *testing.T, text string) (columns []string) {
	t.Helper()
	for line := range strings.Lines(sectionOf(t, "When a pod does not start")) {
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
