package bundle

import (
	"errors"
	"fmt"
	"maps"
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

// Built returns the directory of the built files.
func Built() string { return filepath.Join(Root(), "internal", "web", "dist") }

// Cache returns the directory of the packages.
func Cache() string { return filepath.Join(Root(), ".deps", "npm") }

// Build returns the built files by their names, the same bytes on every machine: an entry app.js with app.css, and the
// chunks that it loads when they are needed. Of these three.js is built apart, so that its bytes and its name change
// with nothing else. The packages must have been fetched.
func Build() (map[string][]byte, error) {
	files, err := build(api.BuildOptions{EntryPoints: []string{"three.ts"}, EntryNames: "[name]-[hash]"})
	if err != nil {
		return nil, err
	}
	apart := api.Plugin{Name: "apart", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: `/three$`}, func(api.OnResolveArgs) (api.OnResolveResult, error) {
			for name := range files {
				return api.OnResolveResult{Path: "./" + name, External: true}, nil
			}
			return api.OnResolveResult{}, errors.New("three.ts is not built")
		})
	}}
	rest, err := build(api.BuildOptions{EntryPoints: []string{"app.tsx"}, EntryNames: "[name]",
		ChunkNames: "[name]-[hash]", Splitting: true, Plugins: []api.Plugin{apart}})
	maps.Copy(rest, files)
	return rest, err
}

// BuildTests returns a file of JavaScript with all tests of the sources (test/all.ts).
func BuildTests() ([]byte, error) {
	files, err := build(api.BuildOptions{EntryPoints: []string{"test/all.ts"}, EntryNames: "[name]"})
	return files["all.js"], err
}

// build builds files by the given options and those that all builds share.
func build(options api.BuildOptions) (map[string][]byte, error) {
	options.AbsWorkingDir, options.Outdir, options.Bundle = Sources(), Built(), true
	options.Format, options.Target = api.FormatESModule, api.ES2022
	options.NodePaths = []string{filepath.Join(Cache(), "node_modules")}
	options.MinifyWhitespace, options.MinifySyntax, options.MinifyIdentifiers = true, true, true
	options.LegalComments, options.Charset = api.LegalCommentsNone, api.CharsetUTF8
	options.LogLevel, options.JSX, options.JSXImportSource = api.LogLevelSilent, api.JSXAutomatic, "preact"
	result := api.Build(options)
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
