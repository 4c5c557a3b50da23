package study

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// job is one run of a study command: what all kinds share.
type job struct {
	cmd     *cobra.Command
	out     string
	display *runs.Display
	log     *slog.Logger // the study's progress
	session *slog.Logger // warnings of the training runs
}

// newJob prepares the output directory, which must be this study's own or new.
func newJob(cmd *cobra.Command) (*job, error) {
	out, err := cmd.Flags().GetString("out")
	if err != nil {
		panic(err) // prepare has made it
	}
	if out == "" {
		return nil, fmt.Errorf("--out: say which directory to write to, such as docs/results/%s", cmd.Name())
	}
	page, err := os.ReadFile(filepath.Join(out, pageName))
	switch {
	case err == nil && !strings.HasPrefix(string(page), mark(cmd)):
		return nil, fmt.Errorf("--out %s: its %s was not written by study %s: choose another directory", out, pageName, cmd.Name())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	display := runs.NewDisplay(os.Stderr)
	logger := func(level slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(display, &slog.HandlerOptions{Level: level}))
	}
	return &job{cmd: cmd, out: out, display: display, log: logger(slog.LevelInfo), session: logger(slog.LevelWarn)}, nil
}

// path returns the path of a file in the output directory.
func (j *job) path(elements ...string) string {
	return filepath.Join(append([]string{j.out}, elements...)...)
}

// assignment is a setting, by its name in a file, with its value.
type assignment struct{ name, value string }

// papers is what studies of the paper's experiments set before what they are given, whatever the task.
var papers = assignment{"preset", string(config.Paper)}

// reserved are the settings that studies set themselves, with the flags that control them.
var reserved = map[string]string{
	"env": "--env", "algorithm": "--algorithm", "estimator": "the study's variants", "seed": "--seeds", "iterations": "--iterations", "steps": "--iterations",
	"run_dir": "--out", "resume": "--out", "force": "another --out", "dry_run": "--only-report", "config": "--set", "keep_checkpoints": "--at",
}

// parseAssignments reads what --set was given.
func parseAssignments(texts []string) ([]assignment, error) {
	var all []assignment
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
		if !ok || name == "" {
			return nil, fmt.Errorf("--set %s: settings are given like --set batch=16000", text)
		}
		if instead, ok := reserved[name]; ok {
			return nil, fmt.Errorf("--set %s: the study decides it, by %s", text, instead)
		}
		all = append(all, assignment{name, value})
	}
	return all, nil
}

// resolve returns the settings of a run: the assignments, the later ones taking precedence, over the task's preset. The
// environment is ignored, so that the command on a study's page suffices to repeat it.
func resolve(assignments ...assignment) (*config.Settings, error) {
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	loader := config.NewLoader(flags)
	if err := flags.Parse(arguments(assignments)); err != nil {
		return nil, commandline.Explain(flags, err)
	}
	return loader.Load(nil)
}

// arguments returns the settings as a command line.
func arguments(assignments []assignment) []string {
	all := []string{"--evaluate-every=0"} // studies compare returns of training
	var given []config.Assignment
	for _, a := range assignments {
		given = append(given, config.Assignment{Name: a.name, Value: a.value})
	}
	return append(all, config.Arguments(given...)...)
}

// command returns the command line that repeats the study.
func (j *job) command() string {
	words := []string{"go run ./" + j.cmd.CommandPath()}
	j.cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name == "only-report" || flag.Name == "parallel" { // which change nothing
			return
		}
		for _, value := range values(flag) {
			if flag.Value.Type() == "bool" && value == "true" {
				words = append(words, "--"+flag.Name)
				continue
			}
			words = append(words, "--"+flag.Name, commandline.Quote(value))
		}
	})
	return strings.Join(words, " ")
}

// values returns the values of a flag as they would be given: several for one that is repeated.
func values(flag *pflag.Flag) []string {
	list, ok := flag.Value.(pflag.SliceValue)
	if !ok {
		return []string{flag.Value.String()}
	}
	if flag.Value.Type() == "stringArray" {
		return list.GetSlice()
	}
	return []string{strings.Join(list.GetSlice(), ",")}
}
