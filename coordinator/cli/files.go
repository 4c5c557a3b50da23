package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
)

// committed returns an error for a run without an iteration, which has no files yet.
func (s *session) committed(ctx context.Context, name string) error {
	run, err := s.Run(ctx, name)
	if err == nil && run.Checkpoint == nil {
		err = fmt.Errorf("%s is %s, and has no iteration yet", name, run.State)
	}
	return err
}

// logs writes the logs of a run's workers.
func (s *session) logs(ctx context.Context, args []string) error {
	logs, err := s.Logs(ctx, args[0])
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		return fmt.Errorf("%s has no log: no worker has trained it yet, or the coordinator's --checkpoints are not "+
			"the workers'", args[0])
	}
	for _, name := range logs {
		data, err := s.File(ctx, args[0], name)
		if err == nil {
			_, err = s.out.Write(data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// metrics writes the rows of a run's iterations.
func (s *session) metrics(ctx context.Context, args []string) error {
	if err := s.committed(ctx, args[0]); err != nil {
		return err
	}
	data, err := s.File(ctx, args[0], "progress.csv")
	if err != nil {
		return err
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil || len(rows) == 0 {
		return fmt.Errorf("progress.csv of %s cannot be read: %w", args[0], err)
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

// fetched are the files of a run directory that fetch copies; the first must exist.
var fetched = []string{"checkpoints/best.safetensors", config.FileName, "progress.csv", "evaluations.csv"}

// fetch copies a run's best policy, with its settings and rows, into a run directory.
func (s *session) fetch(ctx context.Context, args []string) error {
	if err := s.committed(ctx, args[0]); err != nil {
		return err
	}
	to := s.to
	if to == "" {
		to = strings.ReplaceAll(args[0], "/", "_")
	}
	files := map[string][]byte{}
	for i, name := range fetched {
		data, err := s.File(ctx, args[0], name)
		if i > 0 && errors.Is(err, client.NotFound) {
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
	return s.say(map[string]string{"run": args[0], "directory": to},
		"%s: its best policy is in %s; learner evaluate %s plays it\n", args[0], to, to)
}

// mayFetch returns an error unless a directory is missing, empty, or an earlier copy of the run with these settings.
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

// lengths are the lines of settings that change when a run is extended.
var lengths = regexp.MustCompile(`(?m)^\s*(iterations|steps):.*\n`)

func withoutLength(settings []byte) []byte { return lengths.ReplaceAll(settings, nil) }
