package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
)

const (
	pageName  = "README.md"
	notesName = "notes.md"
)

// job is one run of a study's command.
type job struct {
	cmd  *cobra.Command
	out  string
	log  *slog.Logger
	done bool // there is nothing to report
}

// mark returns the first line of a study's page, which identifies it as generated.
func mark(cmd *cobra.Command) string {
	return fmt.Sprintf("<!-- written by study %s; remarks belong in %s -->\n", cmd.Name(), notesName)
}

// newJob prepares the output directory, which must be this study's own or new.
func newJob(cmd *cobra.Command) (*job, error) {
	out, err := cmd.Flags().GetString("out")
	if err != nil {
		panic(err) // every study has the flag
	}
	if out == "" {
		return nil, fmt.Errorf("--out: name a directory to write to, such as docs/results/%s", cmd.Name())
	}
	page, err := os.ReadFile(filepath.Join(out, pageName))
	switch {
	case err == nil && !strings.HasPrefix(string(page), mark(cmd)):
		return nil, fmt.Errorf("--out %s: its %s was not written by study %s: choose another directory",
			out, pageName, cmd.Name())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &job{cmd: cmd, out: out, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}, nil
}

// path returns the path of a file in the output directory.
func (j *job) path(elements ...string) string {
	return filepath.Join(append([]string{j.out}, elements...)...)
}

// reserved are the settings that --set cannot have, because variants and flags decide them.
var reserved = slices.Concat(refused, combined, []string{"iterations", "steps"})

// parseSet reads the values of --set.
func parseSet(texts []string) (all []config.Assignment, err error) {
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
		if !ok || name == "" {
			return nil, fmt.Errorf("--set %s: settings are given like --set batch=16000", text)
		}
		if slices.Contains(reserved, name) {
			return nil, fmt.Errorf("--set %s: the study decides it, by its variants and other flags", text)
		}
		all = append(all, config.Assignment{Name: name, Value: value})
	}
	return all, nil
}

// command returns the command line that repeats the study.
func (j *job) command() string {
	words := []string{"go run ./learner/" + j.cmd.CommandPath()}
	j.cmd.Flags().Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
			if flag.Value.Type() != "stringArray" {
				values = []string{strings.Join(values, ",")}
			}
		}
		for _, value := range values {
			switch {
			case slices.Contains([]string{"only-report", "parallel", "json"}, flag.Name): // which change nothing
			case flag.Value.Type() == "bool":
				words = append(words, "--"+flag.Name)
			default:
				words = append(words, "--"+flag.Name, commandline.Quote(value))
			}
		}
	})
	return strings.Join(words, " ")
}
