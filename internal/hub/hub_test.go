package hub_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/hub"
)

// pack writes a hub with a policy whose run has one file.
func pack(t *testing.T, directory, name, content string) {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.Create("checkpoints/best.safetensors")
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, name+".zip"), archive.Bytes(), 0o644)
	}
	if err == nil {
		text := fmt.Sprintf(`{%q: {"sha256": "%x", "return": 1}}`, name, sha256.Sum256(archive.Bytes()))
		err = os.WriteFile(filepath.Join(directory, "policies.json"), []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestFetch(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	served := t.TempDir()
	var requests []string
	files := http.FileServer(http.Dir(served))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.Path)
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, c := range []struct{ hub, content, requests string }{
		{served, "a", ""},
		{server.URL, "a", "/policies.json"}, // the cache has it
		{server.URL + "/", "b", "/policies.json /Hopper-v5.zip"},
		{served, "a", ""}, // both are in the cache
	} {
		t.Setenv(hub.Variable, c.hub)
		pack(t, served, "Hopper-v5", c.content)
		requests = nil
		directory, err := hub.Fetch(t.Context(), "Hopper-v5")
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(directory, "checkpoints/best.safetensors"))
		if string(got) != c.content || err != nil || strings.Join(requests, " ") != c.requests {
			t.Errorf("%s: %q, %v after %q, want %q", c.hub, got, err, requests, c.content)
		}
		if filepath.Base(directory) != "Hopper-v5" {
			t.Errorf("the run's name is %s", directory)
		}
	}
}

func TestFetchRefuses(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	for says, change := range map[string]func(directory string) error{
		"there are Hopper-v5": func(string) error { return nil },
		"policies.json":       func(directory string) error { return os.Remove(directory + "/policies.json") },
		"has the SHA-256":     func(directory string) error { return os.WriteFile(directory+"/Hopper-v5.zip", nil, 0o644) },
		"Hopper-v5.zip":       func(directory string) error { return os.Remove(directory + "/Hopper-v5.zip") },
	} {
		directory := t.TempDir()
		pack(t, directory, "Hopper-v5", "a")
		t.Setenv(hub.Variable, directory)
		name := "Hopper-v5"
		if says == "there are Hopper-v5" {
			name = "Hoper-v5"
		}
		err := change(directory)
		if err == nil {
			_, err = hub.Fetch(t.Context(), name)
		}
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), directory) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}
