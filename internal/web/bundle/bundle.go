package bundle

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/evanw/esbuild/pkg/api"
)

// Root returns the repository's directory, from where this file was compiled.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Sources returns the directory of the sources.
func Sources() string { return filepath.Join(Root(), "internal", "web", "ui") }

// Built returns the directory of what is made of them.
func Built() string { return filepath.Join(Root(), "internal", "web", "dist") }

// Cache returns the directory of the packages.
func Cache() string { return filepath.Join(Root(), ".deps", "npm") }

// Build returns the built files by their names, the same bytes on every machine: an entry app.js with app.css, and the chunks that it loads
// when they are needed. The packages must have been fetched.
func Build() (map[string][]byte, error) { return build(true, "app.tsx") }

// BuildTests returns a file of JavaScript with all tests of the sources (test/all.ts).
func BuildTests() ([]byte, error) {
	files, err := build(false, "test/all.ts")
	return files["all.js"], err
}

func build(split bool, entry string) (map[string][]byte, error) {
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: Sources(), EntryPoints: []string{entry}, Outdir: Built(), EntryNames: "[name]", ChunkNames: "[name]-[hash]",
		Bundle: true, Splitting: split, Format: api.FormatESModule, Target: api.ES2022, NodePaths: []string{filepath.Join(Cache(), "node_modules")},
		MinifyWhitespace: true, MinifySyntax: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsNone, Charset: api.CharsetUTF8,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", LogLevel: api.LogLevelSilent,
	})
	var errs []error
	for _, m := range result.Errors {
		where := ""
		if l := m.Location; l != nil {
			where = fmt.Sprintf("%s:%d:%d: ", l.File, l.Line, l.Column)
		}
		errs = append(errs, errors.New(where+m.Text))
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, errors.Join(errs...)
}
