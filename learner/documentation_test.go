package main_test

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

// block is a fenced block of a page. Before one of language sh there is a comment that says how it is tested:
//
//	<!-- run -->              its commands succeed, after those of the page's earlier blocks
//	<!-- run: background -->  the same, while the page goes on
//	<!-- run: server -->      it runs while the page goes on, and is stopped at its end;
//	                          <!-- run: server until COMMAND --> waits until that command succeeds
//	<!-- flags -->            programs accept its command lines, which would take too long
//	<!-- kubernetes: NAME --> by helm/e2e, in a cluster
//	<!-- not run: REASON -->
type block struct {
	page     string
	line     int
	language string
	tag      string
	text     string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// pages returns the files of documentation, relative to the root.
func pages(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/results/*/README.md", "python/*.md", "charts/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(path), "../"))
		}
	}
	slices.Sort(pages)
	return slices.Compact(pages)
}

var (
	fence   = regexp.MustCompile("^```(.*)$")
	comment = regexp.MustCompile(`^<!-- (.*) -->$`)
)

// read returns the lines of a page outside its blocks, with empty ones in place of these, and its blocks.
func readPage(t *testing.T, page string) (prose []string, blocks []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	tag := ""
	for i, line := range strings.Split(string(text), "\n") {
		fenced := fence.FindStringSubmatch(line)
		switch {
		case open != nil && fenced != nil:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case fenced != nil:
			open = &block{page: page, line: i + 1, language: fenced[1], tag: tag}
		}
		if open != nil || fenced != nil {
			tag = ""
			prose = append(prose, "")
			continue
		}
		prose = append(prose, line)
		if found := comment.FindStringSubmatch(line); found != nil {
			tag = found[1]
		} else if line != "" {
			tag = ""
		}
	}
	if open != nil {
		t.Errorf("%v: the block has no end", open)
	}
	return prose, blocks
}

// The commands of the documentation do what it says: each page's run in a directory of their own, like a user's clone, and in a network
// of their own, where the usual ports are free.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	isolated := []string{"unshare", "--map-root-user", "--net", "--"}
	if output, err := exec.Command(isolated[0], append(slices.Clone(isolated[1:]), "ip", "link", "set", "lo", "up")...).CombinedOutput(); err != nil {
		t.Skipf("the pages' commands need a network namespace, and ip from iproute2: %v: %s", err, output)
	}
	if _, err := buildNATS(); err != nil {
		t.Fatal(err)
	}
	trained := t.TempDir()
	for run, arguments := range map[string]string{
		"Swimmer-v2/npg-uapg-s1": "--env Swimmer-v2",
		"Swimmer-v5/trpo-mc-s1":  "--env Swimmer-v5",
		"Swimmer-v5/trpo-mc-s2":  "--env Swimmer-v5 --seed 2",
	} {
		cmd := exec.Command(filepath.Join(programs, "learner"), append(strings.Fields(arguments), "--iterations", "2", "--batch", "1000", "--evaluate-every", "2",
			"--listen", "127.0.0.1:0", "--run-dir", "runs/"+run)...)
		cmd.Dir = trained
		startCommand(t, cmd).Succeed()
	}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/results/") || strings.HasPrefix(page, "docs/adr/") {
			continue
		}
		_, blocks := readPage(t, page)
		script := pageScript(t, blocks)
		if script == "" {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			directory := clone(t, trained)
			cmd := exec.Command(isolated[0], append(slices.Clone(isolated[1:]), "sh", "-euc", "ip link set lo up\n"+script)...)
			cmd.Dir = directory
			cmd.Env = append(os.Environ(), "PROGRAMS="+programs, "PATH="+filepath.Join(directory, "bin")+":"+os.Getenv("PATH"),
				"HOST=localhost", "ITERATIONS=20", "DBQPG_ITERATIONS=1", "DBQPG_EVALUATE_EVERY=0", "DBQPG_LOG_LEVEL=error")
			processtest.Start(t, cmd).Succeed()
		})
	}
}

// pageScript returns the shell's commands that test the blocks of a page, "" if none can be.
func pageScript(t *testing.T, blocks []block) string {
	t.Helper()
	var script strings.Builder
	for _, b := range blocks {
		if b.language == "" {
			t.Errorf("%v: the block has no language: text, if there is none", b)
		}
		if b.language != "sh" {
			continue
		}
		kind, detail, _ := strings.Cut(b.tag, ":")
		switch detail = strings.TrimSpace(detail); {
		case b.tag == "run":
			fmt.Fprintf(&script, "echo '%v' >&2\n%s", b, b.text)
		case b.tag == "run: background":
			fmt.Fprintf(&script, "echo '%v' >&2\n{\n%s} & background=\"${background:-} $!\"\n", b, b.text)
		case detail == "server" || strings.HasPrefix(detail, "server until "):
			fmt.Fprintf(&script, "echo '%v' >&2\nsetsid sh -euc %s & servers=\"${servers:-} $!\"\n", b, quoted(b.text))
			if ready := strings.TrimPrefix(detail, "server until "); ready != detail {
				fmt.Fprintf(&script, "until %s >/dev/null 2>&1; do sleep 0.1; done\n", ready)
			}
		case b.tag == "flags":
			fmt.Fprintf(&script, "echo '%v' >&2\n(PATH=$PWD/bin/flags:$PATH\n%s)\n", b, b.text)
		case kind == "kubernetes", kind == "not run" && detail != "":
		default:
			t.Errorf("%v: the comment before the block, %q, does not say how it is tested", b, b.tag)
		}
	}
	if script.Len() == 0 {
		return ""
	}
	return "trap 'for server in ${servers:-}; do kill -- -$server 2>/dev/null || :; done; wait' EXIT\n" + script.String() + "for process in ${background:-}; do wait $process; done\n"
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// clone returns a directory like a user's clone, with a few runs. Its programs are those under test, which `go run` and `go build` are
// made to take.
func clone(t *testing.T, trained string) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "clone-")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		switch entry.Name() {
		case "runs", "bin", "credentials", ".git":
		default:
			if err := os.Symlink(filepath.Join(root, entry.Name()), filepath.Join(directory, entry.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.CopyFS(filepath.Join(directory, "runs"), os.DirFS(filepath.Join(trained, "runs"))); err != nil {
		t.Fatal(err)
	}
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{"go": `case "$1 $2" in
"run ./actor" | "run ./coordinator" | "run ./learner" | "run ./learner/study") program=${2##*/} && shift 2 && exec "$program" "$@" ;;
"build -o") exit ;; # bin holds the programs already
esac
exec ` + compiler + ` "$@"
`}
	for _, program := range []string{"actor", "coordinator", "learner", "study", "nats-server"} {
		scripts[program] = `exec "$PROGRAMS/` + program + `" "$@"` + "\n"
		scripts["flags/"+program] = `"$PROGRAMS/` + program + `" "$@" --help >/dev/null` + "\n"
	}
	for name, text := range scripts {
		path := filepath.Join(directory, "bin", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\nset -eu\n"+text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`^#+ +(.*)$`)
)

// Every link of the documentation leads to a file that is there, and to a heading that it has.
func TestLinks(t *testing.T) {
	t.Parallel()
	anchors := map[string][]string{}
	for _, page := range pages(t) {
		prose, _ := readPage(t, page)
		for _, line := range prose {
			if found := heading.FindStringSubmatch(line); found != nil {
				anchors[page] = append(anchors[page], anchor(found[1]))
			}
		}
	}
	for _, page := range pages(t) {
		prose, _ := readPage(t, page)
		for i, line := range prose {
			for _, found := range link.FindAllStringSubmatch(line, -1) {
				target, err := url.Parse(found[1])
				if err != nil || target.Scheme != "" {
					continue
				}
				path := filepath.ToSlash(filepath.Join(filepath.Dir(page), target.Path))
				if target.Path == "" {
					path = page
				}
				if _, err := os.Stat(filepath.Join("..", path)); err != nil {
					t.Errorf("%s:%d: there is no %s", page, i+1, path)
				} else if target.Fragment != "" && strings.HasSuffix(path, ".md") && !slices.Contains(anchors[path], target.Fragment) {
					t.Errorf("%s:%d: %s has no heading #%s: %s", page, i+1, path, target.Fragment, cmp.Or(strings.Join(anchors[path], ", "), "none at all"))
				}
			}
		}
	}
}

// anchor returns the fragment under which GitHub finds a heading.
func anchor(heading string) string {
	heading = link.ReplaceAllString(heading, "]")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '-':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// A page of the documentation takes two screens: what is longer is two pages. Tables and blocks do not count, nor do results,
// decisions and the glossary, in which readers look things up.
func TestLength(t *testing.T) {
	t.Parallel()
	const most = 1000 // words
	for _, page := range pages(t) {
		if !strings.HasPrefix(page, "docs/") || strings.HasPrefix(page, "docs/results/") || strings.HasPrefix(page, "docs/adr/") || page == "docs/glossary.md" {
			continue
		}
		prose, _ := readPage(t, page)
		words := 0
		for _, line := range prose {
			if !strings.HasPrefix(line, "|") {
				words += len(strings.Fields(line))
			}
		}
		if words > most {
			t.Errorf("%s has %d words outside its tables and blocks, more than %d: make it two pages", page, words, most)
		}
	}
}
