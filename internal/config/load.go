package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/external"
)

// FileName is the name of a run's resolved settings in its directory.
const FileName = "config.yaml"

// sources gathers settings from flags, the environment and files.
type sources struct {
	settings []value
	file     string                 // value of --config
	flags    map[string]*pflag.Flag // by setting
	origin   map[string]string      // source of each setting given so far
}

// newSources adds a flag for every setting of s, which is as for rows, and --config, to flags.
func newSources(flags *pflag.FlagSet, s any) *sources {
	from := &sources{settings: rows(s), flags: map[string]*pflag.Flag{}, origin: map[string]string{}}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	flags.StringVar(&from.file, "config", "", "YAML file of settings, named as the flags with _ for -")
	for _, row := range from.settings {
		flag := flags.VarPF(row, row.flag(), "", row.Help)
		flag.DefValue = "" // presets decide
		from.flags[row.Name] = flag
		if row.Kind == kindBool {
			flag.NoOptDefVal = "true"
		}
	}
	return from
}

// AddFlags adds flags for the named settings, which are fields of *s, with their values as defaults.
func AddFlags(flags *pflag.FlagSet, s any, names ...string) {
	for _, row := range rows(s) {
		if slices.Contains(names, row.Name) {
			flags.Var(row, row.flag(), row.Help)
		}
	}
}

// give sets a setting unless an earlier source has.
func (s *sources) give(row value, text, origin string) error {
	if s.given(row.Name) {
		return nil
	}
	s.origin[row.Name] = origin
	return row.Set(text)
}

// given reports whether a source has given a setting.
func (s *sources) given(name string) bool { return s.origin[name] != "" }

// readFlags notes which flags were given.
func (s *sources) readFlags() error {
	for name, flag := range s.flags {
		if flag.Changed {
			s.origin[name] = "flag"
		}
	}
	return nil
}

// readEnvironment reads DBQPG_NAME for every setting. It ignores other variables with that prefix (Kubernetes defines
// some), unless one looks like a misspelled setting.
func (s *sources) readEnvironment(environ []string) error {
	var names []string
	for _, row := range s.settings {
		names = append(names, row.variable())
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(variable, variablePrefix) {
			continue
		}
		if variable == variablePrefix+"CONFIG" {
			s.file = cmp.Or(s.file, text)
			continue
		}
		if i := slices.Index(names, variable); i >= 0 {
			if err := s.give(s.settings[i], text, "environment"); err != nil {
				return fmt.Errorf("%s in the environment: %w", variable, err)
			}
		} else if meant, edits := nearest.Name(variable, names); edits <= 1 {
			return fmt.Errorf("%s in the environment is not a setting; did you mean %s?", variable, meant)
		}
	}
	return nil
}

// readFile reads the file of --config, if there is one.
func (s *sources) readFile() error {
	if s.file == "" {
		return nil
	}
	entries, err := readYAML(s.file)
	if err != nil {
		return err
	}
	return s.giveAll(s.file, entries)
}

// giveAll sets the settings of a file unless an earlier source has.
func (s *sources) giveAll(path string, entries []entry) error {
	var names []string
	for _, row := range s.settings {
		names = append(names, row.Name)
	}
	for _, e := range entries {
		i := slices.Index(names, e.name)
		if i < 0 {
			meant, _ := nearest.Name(e.name, names)
			return fmt.Errorf("%s, line %d: %s is not a setting; did you mean %s?", path, e.line, e.name, meant)
		}
		if err := s.give(s.settings[i], e.text, path); err != nil {
			return fmt.Errorf("%s, line %d: %s: %w", path, e.line, e.name, err)
		}
	}
	return nil
}

// rest returns the settings that no source has given.
func (s *sources) rest(all []value) []value {
	return slices.DeleteFunc(all, func(row value) bool { return s.given(row.Name) })
}

// Loader gathers the settings of a run.
type Loader struct {
	*sources
	run     Settings
	builtIn bool // tasks without a file are built-in ones, not Gymnasium's
}

// NewLoader adds a flag for every setting of a run, and --config, to flags.
func NewLoader(flags *pflag.FlagSet) *Loader {
	l := &Loader{run: Settings{Resume: ResumeNo}}
	l.sources = newSources(flags, &l.run)
	l.flags["resume"].NoOptDefVal = string(ResumeYes)
	return l
}

// Load resolves the settings after the flags have been parsed. environ has the form of os.Environ. The error has one
// line for each problem.
func (l *Loader) Load(environ []string) (*Settings, error) {
	environment := func() error { return l.readEnvironment(environ) }
	for _, read := range []func() error{l.readFlags, environment, l.readFile, l.readResumed, l.readPreset,
		l.run.Validate} {
		if err := read(); err != nil {
			return nil, err
		}
		l.chooseLength()
		if err := l.nameTask(); err != nil {
			return nil, err
		}
	}
	return &l.run, nil
}

// chooseLength is called after each source: the number of iterations from one source overrides the number of steps from
// a weaker one, and vice versa.
func (l *Loader) chooseLength() {
	iterations, steps := l.run.Iterations > 0 && l.given("iterations"), l.run.Steps > 0 && l.given("steps")
	drop := func(name string, field *uint64) {
		if !l.given(name) {
			l.origin[name] = l.run.Unit()
		}
		*field = 0
	}
	switch {
	case iterations && !steps:
		drop("steps", &l.run.Steps)
	case steps && !iterations:
		drop("iterations", &l.run.Iterations)
	}
}

// readResumed reads the settings with which the run to be resumed was started.
func (l *Loader) readResumed() error {
	s := &l.run
	if s.Resume == ResumeNo {
		return nil
	}
	if s.RunDir == "" && s.Env == "" {
		return errors.New("--resume: name the run with --run-dir, or with --env (and --algorithm, --estimator and " +
			"--seed)")
	}
	if s.RunDir == "" {
		complete := *s
		l.complete(&complete)
		s.RunDir, l.origin["run_dir"] = complete.DefaultRunDir(), "preset"
	}
	path := filepath.Join(s.RunDir, FileName)
	entries, err := readYAML(path)
	_, missing := os.Stat(filepath.Join(s.RunDir, "checkpoints"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing == nil && s.Env != "":
		return nil // the settings are compared with those in its newest checkpoint
	case errors.Is(err, fs.ErrNotExist) && missing == nil:
		return fmt.Errorf("--resume: %s has lost its %s: repeat the settings that the run was started with", s.RunDir,
			FileName)
	case errors.Is(err, fs.ErrNotExist) && s.Resume == ResumeYes:
		return fmt.Errorf("--resume: there is no run in %s: repeat the settings that it was started with, "+
			"or name its directory with --run-dir", s.RunDir)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || len(entries) == 0 && s.Env == "":
		err = cmp.Or(err, fmt.Errorf("%s is empty", path))
		return fmt.Errorf("--resume: %w; remove it, and repeat the settings that the run was started with", err)
	}
	if err := l.giveAll(path, entries); err != nil || s.TaskFile == nil || l.origin["task"] != path {
		return err
	}
	if info, err := os.Stat(path); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return fmt.Errorf("--resume: %s, which another user wrote, starts the program %q: if you trust it, give its task "+
			"as a file with --task", path, s.TaskFile.Command)
	}
	return nil
}

// nameTask sets the task's name to that of the task file, if there is one.
func (l *Loader) nameTask() error {
	s := &l.run
	if s.TaskFile == nil || s.Env == s.TaskFile.Name {
		return nil
	}
	if s.Env != "" {
		return fmt.Errorf("--env %s: the task file (%s) is for %s; give one or the other", s.Env, l.origin["task"],
			s.TaskFile.Name)
	}
	s.Env, l.origin["env"] = s.TaskFile.Name, "task file"
	return nil
}

// readPreset fills in all settings that no other source has given.
func (l *Loader) readPreset() error {
	s := &l.run
	if s.Env == "" {
		return fmt.Errorf("--env: name the task to learn: %s, an earlier version (docs/tasks.md), "+
			"or your own by --task FILE (docs/environments.md)", nearest.List(sim.Newest()))
	}
	if err := l.findTask(); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	fitted := l.complete(s)
	for _, row := range l.settings {
		l.origin[row.Name] = cmp.Or(l.origin[row.Name], "preset")
	}
	if fitted {
		l.origin["segment"] = "computed"
	}
	s.RunDir = cmp.Or(s.RunDir, s.DefaultRunDir())
	return nil
}

// findTask looks for a task that is not built in, and has no file, in Gymnasium.
func (l *Loader) findTask() error {
	s := &l.run
	_, err := s.Task()
	if err == nil || l.builtIn || !external.IsGymnasium(s.Env) {
		return err
	}
	f, missing := external.Gymnasium(s.Env)
	if missing != nil {
		return fmt.Errorf("%w In Gymnasium: %w", err, missing)
	}
	s.TaskFile, l.origin["task"] = f, "Gymnasium"
	return nil
}

// complete gives s the defaults of the settings that no source has given. fitted reports whether the segments were
// fitted to the batch.
func (l *Loader) complete(s *Settings) (fitted bool) {
	if !l.given("preset") {
		s.Preset = DefaultPreset(s.Env)
	}
	if !l.given("algorithm") {
		s.Algorithm = s.Preset.Algorithm()
	}
	if !l.given("estimator") {
		s.Estimator = s.Preset.Estimator()
	}
	setDefaults(l.rest(rows(s)), s.facts())
	fitted = s.Segment > 0 && s.Batch > 0 && s.Batch%s.Segment != 0 && !l.given("segment")
	if fitted {
		streams := max(1, s.Batch/s.Segment)
		for s.Batch%streams != 0 {
			streams--
		}
		s.Segment = s.Batch / streams
	}
	return fitted
}

// Describe returns all settings with their sources, one per line, under the headings of their sections.
func (l *Loader) Describe() string {
	return l.run.render(func(row value) (comment string, written bool) { return l.origin[row.Name], true })
}
