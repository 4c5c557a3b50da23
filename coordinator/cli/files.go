package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/store"
)

// directory is a run's directory in the workers' store.
type directory struct {
	store.Store
	path string
}

// directoryOf returns the directory of a run's last commit.
func (s *session) directoryOf(ctx context.Context, name string) (*directory, error) {
	run, err := s.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	if run.Checkpoint == nil {
		return nil, fmt.Errorf("%s is %s, and has no iteration yet", name, run.State)
	}
	kept, err := s.openStore(ctx)
	return &directory{kept, path.Dir(path.Dir(run.Checkpoint.Location))}, err
}

// openStore opens the workers' store.
func (s *session) openStore(ctx context.Context) (store.Store, error) {
	kept, err := store.OpenExisting(ctx, s.checkpoints)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--checkpoints %s: give the store that the workers use (%w)", s.checkpoints, err)
	case err != nil:
		return nil, fmt.Errorf("--checkpoints: %w", err)
	}
	return kept, nil
}

// logs writes what the workers that had a run logged of it.
func (s *session) logs(ctx context.Context, args []string) error {
	run, err := s.Run(ctx, args[0])
	if err != nil {
		return err
	}
	kept, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	keys, err := store.List(ctx, kept, epochs.Logs(run.Home()))
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return fmt.Errorf("%v has no log of %s: nobody has trained it yet, or --checkpoints are not those of the workers", kept, run.Name)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(epochs.OfLog(a), epochs.OfLog(b)) })
	for _, key := range keys {
		data, err := kept.Get(ctx, key)
		if err == nil {
			_, err = s.out.Write(data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns one of the directory's files.
func (d *directory) read(ctx context.Context, name string) ([]byte, error) {
	data, err := d.Get(ctx, path.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%v has no %s: are --checkpoints those of the workers? (%w)", d, path.Join(d.path, name), err)
	}
	return data, err
}

// metrics writes the rows of a run's iterations.
func (s *session) metrics(ctx context.Context, args []string) error {
	d, err := s.directoryOf(ctx, args[0])
	if err != nil {
		return err
	}
	data, err := d.read(ctx, "progress.csv")
	if err != nil {
		return err
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil || len(rows) == 0 {
		return fmt.Errorf("%s/progress.csv cannot be read: %w", d.path, err)
	}
	heading, rows := rows[0], rows[1:]
	if s.last > 0 {
		rows = rows[max(0, len(rows)-s.last):]
	}
	if !s.json {
		w := csv.NewWriter(s.out)
		return errors.Join(w.Write(heading), w.WriteAll(rows))
	}
	all := []map[string]string{}
	for _, row := range rows {
		object := map[string]string{}
		for i, name := range heading {
			object[name] = row[i]
		}
		all = append(all, object)
	}
	return s.writeJSON(all)
}

// fetched are the files of a run directory that fetch copies, the one that must be there first.
var fetched = []string{"checkpoints/best.safetensors", config.FileName, "progress.csv", "evaluations.csv"}

// fetch copies a run's best policy, with its settings and rows, into a run directory.
func (s *session) fetch(ctx context.Context, args []string) error {
	d, err := s.directoryOf(ctx, args[0])
	if err != nil {
		return err
	}
	to := s.to
	if to == "" {
		to = strings.ReplaceAll(args[0], "/", "_")
	}
	files := map[string][]byte{}
	for i, name := range fetched {
		data, err := d.read(ctx, name)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files[name] = data
	}
	if err := mayFetch(to, files[config.FileName]); err != nil {
		return err
	}
	for name, data := range files {
		file := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := atomicfile.Write(file, data); err != nil {
			return err
		}
	}
	return s.say(map[string]string{"run": args[0], "directory": to}, "%s: its best policy is in %s; learner evaluate %s plays it\n", args[0], to, to)
}

// mayFetch returns an error unless a directory is missing, or empty, or has what was fetched of the run with these settings before.
func mayFetch(directory string, settings []byte) error {
	err := fs.WalkDir(os.DirFS(directory), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.Contains(fetched, name) {
			return err
		}
		return fmt.Errorf("%s has %s, which is not of a fetched run: choose another --to", directory, name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(directory, config.FileName))
	if err == nil && !bytes.Equal(withoutLength(own), withoutLength(settings)) {
		return fmt.Errorf("%s is of another run: choose another --to", directory)
	}
	return nil
}

// lengths are lines of settings in which a run that was extended differs from what it was.
var lengths = regexp.MustCompile(`(?m)^\s*(iterations|steps):.*\n`)

func withoutLength(settings []byte) []byte { return lengths.ReplaceAll(settings, nil) }
