// Command build builds internal/web/dist, whose files are committed: run it after a change in internal/web/ui (make
// web). With --fetch it only fetches the npm packages, including the tests', with --diagrams that of the documentation.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dbqpg/dbqpg/internal/web/bundle"
)

func main() {
	fetch := flag.Bool("fetch", false, "only fetch the npm packages, also those of the tests")
	diagrams := flag.Bool("diagrams", false, "only fetch the npm package that draws the documentation's diagrams")
	flag.Parse()
	if err := run(*fetch, *diagrams); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n", err)
		os.Exit(1)
	}
}

func run(fetch, diagrams bool) error {
	ctx, packages := context.Background(), bundle.Libraries
	switch {
	case diagrams:
		packages = bundle.Diagrams
	case fetch:
		packages = slices.Concat(packages, bundle.Checkers)
	}
	if err := bundle.Fetch(ctx, bundle.Cache(), packages...); err != nil || fetch || diagrams {
		return err
	}
	files, err := bundle.Build()
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(bundle.Built(), "*"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if _, stays := files[filepath.Base(path)]; !stays {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(bundle.Built(), name)
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, files[name]) {
			continue
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes\n", name, len(files[name]))
	}
	return nil
}
