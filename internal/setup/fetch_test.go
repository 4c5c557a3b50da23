package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/download"
)

// wheelOf returns a wheel with members of these names and contents, and its SHA-256.
func wheelOf(t *testing.T, members ...string) (data []byte, sum string) {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		f, err := w.Create(members[i])
		if err == nil {
			_, err = f.Write([]byte(members[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), fmt.Sprintf("%x", sha256.Sum256(out.Bytes()))
}

// index serves a package's page and wheel, as a mirror with relative links does, and counts requests.
func index(t *testing.T, page string, wheel []byte) (requests *int) {
	t.Helper()
	requests = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		switch {
		case r.URL.Path == "/simple/engine/":
			fmt.Fprint(w, page)
		case r.URL.Path == "/files/engine-1.0-py3-none-linux_x86_64.whl" && r.URL.Query().Get("a") == "1" &&
			r.URL.Query().Get("b") == "2":
			if _, err := w.Write(wheel); err != nil {
				t.Error(err)
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("PIP_INDEX_URL", server.URL+"/simple")
	return requests
}

const linked = `<a href="../../files/engine-1.0-py3-none-linux_aarch64.whl#sha256=%[1]s">other</a>
<a href="../../files/engine-1.0-py3-none-linux_x86_64.whl?a=1&amp;b=2#sha256=%[1]s"
	data-requires-python="&gt;=3">ours</a>`

var engine = part{
	name: "engine", what: "an engine (1 kB)", pins: "pins.txt",
	files: []member{
		file("engine", `engine/(lib\.so\..*)`, ".deps/lib/$1"),
		program("engine", `engine-1\.0\.data/scripts/(tool)`, ".deps/bin/$1"),
	},
}

// rootWith returns a directory with a file of pins.
func rootWith(t *testing.T, sums ...string) string {
	t.Helper()
	root := t.TempDir()
	text := "# A comment.\nengine==1.0"
	for _, sum := range sums {
		text += " \\\n    --hash=sha256:" + sum
	}
	text += "\nelsewhere==2 ; platform_machine == \"aarch64\" --hash=sha256:" + strings.Repeat("0", 64) + "\n"
	if err := os.WriteFile(filepath.Join(root, "pins.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestFetch(t *testing.T) {
	wheel, sum := wheelOf(t, "engine/lib.so.1", "library", "engine/unwanted", "x", "engine-1.0.data/scripts/tool",
		"program")
	requests := index(t, fmt.Sprintf(linked, sum), wheel)
	root := rootWith(t, strings.Repeat("1", 64), sum)
	fetch := func(want int) {
		t.Helper()
		*requests = 0
		if err := engine.fetch(t.Context(), root, "x86_64"); err != nil {
			t.Fatal(err)
		}
		if *requests != want {
			t.Errorf("%d requests, want %d", *requests, want)
		}
		for path, want := range map[string]string{".deps/lib/lib.so.1": "library", ".deps/bin/tool": "program"} {
			if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		}
	}
	fetch(2)
	if info, err := os.Stat(filepath.Join(root, ".deps/bin/tool")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the program cannot be executed: %v, %v", info.Mode(), err)
	}
	fetch(0) // all is there
	if err := os.Remove(filepath.Join(root, ".deps/bin/tool")); err != nil {
		t.Fatal(err)
	}
	fetch(2) // a file is missing
	if err := os.WriteFile(filepath.Join(root, "pins.txt"), fmt.Appendf(nil, "engine==1.0 --hash=sha256:%s", sum),
		0o644); err != nil {
		t.Fatal(err)
	}
	fetch(2) // other pins
	left, err := filepath.Glob(filepath.Join(root, ".deps-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestFetchRefuses(t *testing.T) {
	wheel, sum := wheelOf(t, "engine/lib.so.1", "library", "engine-1.0.data/scripts/tool", "program")
	outside, outsideSum := wheelOf(t, "engine/lib.so./../../../../escaped", "x", "engine-1.0.data/scripts/tool",
		"program")
	lacking, lackingSum := wheelOf(t, "engine/lib.so.1", "library")
	for name, c := range map[string]struct {
		page, machine string
		wheel         []byte
		pinned, says  string
	}{
		"another content": {fmt.Sprintf(linked, sum), "x86_64", outside, sum, "SHA-256 " + outsideSum},
		"unpinned": {fmt.Sprintf(linked, sum), "x86_64", wheel, strings.Repeat("1", 64),
			"no wheel for x86_64 with a pinned hash"},
		"another machine": {fmt.Sprintf(linked, sum), "riscv64", wheel, sum, "no wheel for riscv64"},
		"not found":       {fmt.Sprintf(linked, sum), "aarch64", wheel, sum, "404"},
		"outside": {fmt.Sprintf(linked, outsideSum), "x86_64", outside, outsideSum,
			`it has a file "engine/lib.so./../../../../escaped"`},
		"lacks a file": {fmt.Sprintf(linked, lackingSum), "x86_64", lacking, lackingSum, "it has no "},
		"not an archive": {fmt.Sprintf(linked, fmt.Sprintf("%x", sha256.Sum256([]byte("page")))), "x86_64",
			[]byte("page"), fmt.Sprintf("%x", sha256.Sum256([]byte("page"))), "zip"},
		"not an index":     {"log in first", "x86_64", wheel, sum, "no wheel"},
		"pins of no hash":  {"", "x86_64", wheel, "", "is not PACKAGE==VERSION"},
		"pins of any hash": {"", "x86_64", wheel, "12", "is not PACKAGE==VERSION"},
	} {
		t.Run(name, func(t *testing.T) {
			index(t, c.page, c.wheel)
			root := rootWith(t, c.pinned)
			err := engine.fetch(t.Context(), root, c.machine)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if errors.Is(err, download.ErrUnavailable) != (name == "not found") {
				t.Errorf("%v speaks of the network", err)
			}
			if files, err := filepath.Glob(filepath.Join(root, ".deps*", "*")); err != nil || len(files) > 0 {
				t.Errorf("left behind: %q, %v", files, err)
			}
		})
	}
}

// The pins in the repository are of packages that the parts take files from, and the other way round.
func TestParts(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, p := range parts {
		text, err := os.ReadFile(filepath.Join(root, p.pins))
		if err != nil {
			t.Fatal(err)
		}
		pins, err := parsePins(string(text), "x86_64")
		if err != nil {
			t.Fatalf("%s: %v", p.pins, err)
		}
		wanted := map[string]bool{}
		for _, f := range p.files {
			wanted[f.of] = true
		}
		for _, pin := range pins {
			if !wanted[pin.name] {
				t.Errorf("%s: nothing is taken from %s", p.name, pin.name)
			}
			delete(wanted, pin.name)
		}
		if len(wanted) > 0 {
			t.Errorf("%s: not pinned: %v", p.name, wanted)
		}
	}
}
