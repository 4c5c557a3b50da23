// Package bundle makes the files in internal/web/dist of the sources in internal/web/ui and of a few npm packages,
// whose contents are pinned by hash. Neither Node nor npm takes part: esbuild is a Go library.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/dbqpg/dbqpg/internal/download"
)

// Package is a version of an npm package.
type Package struct {
	Name, Version string
	// Integrity is the SHA-512 of its tarball, in base64, as in a package-lock.json.
	Integrity string
}

// Libraries are the packages of which the pages are made. Their licenses are in THIRD_PARTY_NOTICES.md.
var Libraries = []Package{
	{"preact", "11.2.0", "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg=="},
	{"uplot", "1.6.32", "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="},
	{"three", "0.187.0", "Qiu7R+Cmh8CstZsY1uJOSWnVlfo7ZtNLV7mF8Jltk3LB3AtDu9cRZlcnRKkAk8Y4z6KKw35z7Y7Urd7jWY8etA=="},
}

// Checkers are the packages that only tests use: the type checker, declarations for it, and the accessibility checks.
var Checkers = []Package{
	{"@typescript/native-preview-linux-x64", "7.0.0-dev.20260707.2",
		"du0dzi6y97Po5vDNdPJTyyijHCpaS22JLRnKZEJXBDaO9gCIymOv/5QQokFRuOlQm0bWl3i9PF4OVdGP6uAOQA=="},
	{"@types/three", "0.187.0",
		"v+vKNarUtk4n2QRZ4+CN5ygMM0ARUjXjIQl0R/unMUfmStFeVqGbgqarbrpoGTXRZoulSH16ePrVJVxPJEbMUA=="},
	{"axe-core", "4.14.1", "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="},
}

// Diagrams draws those of the documentation's site (make docs).
var Diagrams = []Package{
	{"mermaid", "11.17.2", "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="},
}

const (
	registryVariable = "npm_config_registry" // as npm has it
	publicRegistry   = "https://registry.npmjs.org"
	maxTarball       = 128 << 20 // bytes, also of its contents' sum
)

// Fetch fetches the packages that are missing in a directory's node_modules. Packages are verified when they are
// fetched.
func Fetch(ctx context.Context, directory string, packages ...Package) error {
	for _, p := range packages {
		if err := p.fetch(ctx, directory); err != nil {
			return fmt.Errorf("%s %s: %w", p.Name, p.Version, err)
		}
	}
	return nil
}

func (p Package) fetch(ctx context.Context, directory string) error {
	home := filepath.Join(directory, "node_modules", filepath.FromSlash(p.Name))
	stamp := filepath.Join(home, ".integrity")
	if there, err := os.ReadFile(stamp); err == nil && string(there) == p.Integrity {
		return nil
	}
	tarball, _, err := download.Get(ctx, p.url(), maxTarball)
	if err != nil {
		return err
	}
	if sum := sha512.Sum512(tarball); base64.StdEncoding.EncodeToString(sum[:]) != p.Integrity {
		return fmt.Errorf("its SHA-512 is %s, not the pinned one", base64.StdEncoding.EncodeToString(sum[:]))
	}
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(home), ".fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	if err := unpack(tarball, made); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, ".integrity"), []byte(p.Integrity), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	if err := os.Rename(made, home); err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
		return err
	}
	return os.Chmod(home, 0o755)
}

// url returns where the tarball is.
func (p Package) url() string {
	registry := publicRegistry
	if configured := os.Getenv(registryVariable); configured != "" {
		registry = strings.TrimSuffix(configured, "/")
	}
	return fmt.Sprintf("%s/%s/-/%s-%s.tgz", registry, p.Name, path.Base(p.Name), p.Version)
}

// unpack writes a tarball's files, without the directory that all of them are in.
func unpack(tarball []byte, to string) error {
	compressed, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return err
	}
	archive := tar.NewReader(io.LimitReader(compressed, maxTarball))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(header.Name, "/")
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the tarball has a file %q", header.Name)
		}
		file := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644|header.FileInfo().Mode()&0o111); err != nil {
			return err
		}
	}
}
