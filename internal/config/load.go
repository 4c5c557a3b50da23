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

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/sim"
)

// FileName is the name of a run's resolved settings in its directory.
const FileName = "config.yaml"

// Loader gathers settings from flags, environment, files and presets.
type Loader struct {
	settings Settings
	file     string                 // value of --config
	flags    map[string]*pflag.Flag // by setting
	origin   map[string]string      // source of each setting given so far
}

// NewLoader adds a flag for every setting, and --config, to flags.
func NewLoader(flags *pflag.FlagSet) *Loader {
	l := &Loader{
		settings: Settings{Estimator: UAPG, Seed: 1, Resume: ResumeNo},
		flags:    map[string]*pflag.Flag{},
		origin:   map[string]string{},
	}
	flags.StringVar(&l.file, "config", "", "YAML file of settings, named as the flags with _ for -")
	for _, s := range l.settings.all() {
		flag := flags.VarPF(s.value, s.flag(), "", s.help)
		flag.DefValue = "" // presets decide
		l.flags[s.name] = flag
		switch s.name {
		case "resume":
			flag.NoOptDefVal = string(ResumeYes)
		case "bootstrap", "completion", "insecure_listen", "pprof", "worker", "force", "dry_run":
			flag.NoOptDefVal = "true"
		}
	}
	return l
}

// Load resolves the settings after the flags have been parsed. environ has the form of os.Environ. The error has one
// line for each problem.
func (l *Loader) Load(environ []string) (*Settings, error) {
	for name, flag := range l.flags {
		if flag.Changed {
			l.origin[name] = "flag"
		}
	}
	l.chooseLength()
	if err := l.readEnvironment(environ); err != nil {
		return nil, err
	}
	l.chooseLength()
	if l.file != "" {
		if err := l.readFile(l.file); err != nil {
			return nil, err
		}
		l.chooseLength()
	}
	if l.settings.Worker {
		return l.loadWorker()
	}
	if err := l.refuseWorkers(); err != nil {
		return nil, err
	}
	if err := l.nameTask(); err != nil {
		return nil, err
	}
	if err := l.readResumed(); err != nil {
		return nil, err
	}
	l.chooseLength()
	if err := l.nameTask(); err != nil {
		return nil, err
	}
	if err := l.readPreset(); err != nil {
		return nil, err
	}
	if err := l.settings.Validate(); err != nil {
		return nil, err
	}
	return &l.settings, nil
}

// give sets a setting unless an earlier source has.
func (l *Loader) give(s setting, text, origin string) error {
	if l.origin[s.name] != "" {
		return nil
	}
	l.origin[s.name] = origin
	return s.value.Set(text)
}

// given reports whether a source has given a setting.
func (l *Loader) given(name string) bool { return l.origin[name] != "" }

// chooseLength is called after each source: one that gives the number of iterations overrides what weaker ones say of steps, and
// the other way round.
func (l *Loader) chooseLength() {
	if dropped := l.settings.ChooseLength(l.given); dropped != "" && !l.given(dropped) {
		l.origin[dropped] = l.settings.Unit()
	}
}

// readEnvironment reads DBQPG_NAME for every setting. It ignores other variables with that prefix (Kubernetes defines
// some), unless one looks like a misspelled setting.
func (l *Loader) readEnvironment(environ []string) error {
	settings := l.settings.all()
	var names []string
	for _, s := range settings {
		names = append(names, s.variable())
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(variable, variablePrefix) {
			continue
		}
		if variable == variablePrefix+"CONFIG" {
			if l.file == "" {
				l.file = text
			}
			continue
		}
		if i := slices.Index(names, variable); i >= 0 {
			if err := l.give(settings[i], text, "environment"); err != nil {
				return fmt.Errorf("%s in the environment: %w", variable, err)
			}
		} else if meant, edits := nearest.Name(variable, names); edits <= 1 {
			return fmt.Errorf("%s in the environment is not a setting; did you mean %s?", variable, meant)
		}
	}
	return nil
}

// readFile reads a YAML file of settings.
func (l *Loader) readFile(path string) error {
	entries, err := readYAML(path)
	if err != nil {
		return err
	}
	return l.giveAll(path, entries)
}

// giveAll sets the settings of a file unless an earlier source has.
func (l *Loader) giveAll(path string, entries []entry) error {
	settings := l.settings.all()
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
	}
	for _, e := range entries {
		i := slices.Index(names, e.name)
		if i < 0 {
			meant, _ := nearest.Name(e.name, names)
			return fmt.Errorf("%s, line %d: %s is not a setting; did you mean %s?", path, e.line, e.name, meant)
		}
		if err := l.give(settings[i], e.text, path); err != nil {
			return fmt.Errorf("%s, line %d: %s: %w", path, e.line, e.name, err)
		}
	}
	return nil
}

// readResumed reads the settings with which the run to be resumed was started.
func (l *Loader) readResumed() error {
	s := &l.settings
	if s.Resume == ResumeNo {
		return nil
	}
	if s.RunDir == "" && s.Env == "" {
		return errors.New("--resume: name the run with --run-dir, or with --env (and --algorithm, --estimator and --seed)")
	}
	if s.RunDir == "" {
		complete := *s
		if _, err := l.complete(&complete); err != nil {
			return err
		}
		s.RunDir, l.origin["run_dir"] = complete.DefaultRunDir(), "preset"
	}
	path := filepath.Join(s.RunDir, FileName)
	entries, err := readYAML(path)
	_, missing := os.Stat(filepath.Join(s.RunDir, "checkpoints"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing == nil && s.Env != "":
		return nil // the settings are compared with those in its newest checkpoint
	case errors.Is(err, fs.ErrNotExist) && missing == nil:
		return fmt.Errorf("--resume: %s has lost its %s: repeat the settings that the run was started with", s.RunDir, FileName)
	case errors.Is(err, fs.ErrNotExist) && s.Resume == ResumeYes:
		return fmt.Errorf("--resume: there is no run in %s: repeat the settings that it was started with, or name its directory with --run-dir", s.RunDir)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || len(entries) == 0 && s.Env == "":
		return fmt.Errorf("--resume: %w; remove it, and repeat the settings that the run was started with", cmp.Or(err, fmt.Errorf("%s is empty", path)))
	}
	if len(entries) > 0 { // what the file lacks did not exist when the run began
		for name, text := range introduced {
			entries = append(entries, entry{name: name, text: text})
		}
	}
	return l.giveAll(path, entries)
}

// nameTask sets the task's name to that of the task file, if there is one.
func (l *Loader) nameTask() error {
	s := &l.settings
	if s.TaskFile == nil || s.Env == s.TaskFile.Name {
		return nil
	}
	if s.Env != "" {
		return fmt.Errorf("--env %s: the task file (%s) is for %s; give one or the other", s.Env, l.origin["task"], s.TaskFile.Name)
	}
	s.Env, l.origin["env"] = s.TaskFile.Name, "task file"
	return nil
}

// readPreset fills in all settings that no other source has given.
func (l *Loader) readPreset() error {
	s := &l.settings
	if s.Env == "" {
		return fmt.Errorf("--env: name the task to learn: %s, an earlier version (docs/tasks.md), or one of your own by --task FILE (docs/environments.md)", nearest.List(sim.Newest()))
	}
	if _, err := s.Task(); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	computed, err := l.complete(s)
	if err != nil {
		return err
	}
	for _, s := range s.all() {
		if l.origin[s.name] == "" {
			l.origin[s.name] = "preset"
		}
	}
	for _, name := range computed {
		l.origin[name] = "computed"
	}
	if s.RunDir == "" {
		s.RunDir = s.DefaultRunDir()
	}
	return nil
}

// complete gives s the values of its preset for what no source has given, and returns the names of the settings that were computed from
// others.
func (l *Loader) complete(s *Settings) (computed []string, err error) {
	if !l.given("preset") {
		s.Preset = DefaultPreset(s.Env)
	}
	if !l.given("algorithm") {
		s.Algorithm = s.Preset.Algorithm()
	}
	if err := s.fill(func(s setting) bool { return !l.given(s.name) }); err != nil {
		return nil, err
	}
	return s.CompleteBatch(l.given), nil
}

// fill sets the settings that are missing to the values of the task's preset.
func (s *Settings) fill(missing func(setting) bool) error {
	preset := forTask(s.Env, s.Algorithm, s.Estimator, s.Preset)
	values := preset.all()
	for i, setting := range s.all() {
		if !missing(setting) {
			continue
		}
		if err := setting.value.Set(values[i].value.String()); err != nil {
			return fmt.Errorf("preset of %s: %w", setting.name, err)
		}
	}
	return nil
}

// CompleteBatch computes those of Batch, Segment and Streams that follow from what was given, so that Batch is the product of
// the others, and returns their names. Batch alone has streams of segments that are about as long as before.
func (s *Settings) CompleteBatch(given func(name string) bool) (computed []string) {
	switch {
	case s.Segment == 0 && !given("streams"): // whole episodes
		s.Streams = 0
	case s.Segment < 1 || s.Batch < 1 || given("streams") && s.Streams < 1:
	case given("segment") && !given("streams"):
		s.Streams = s.Batch / s.Segment
		return []string{"streams"}
	case given("streams") && !given("segment"):
		s.Segment = s.Batch / s.Streams
		return []string{"segment"}
	case given("streams") && !given("batch") && s.Streams <= maxBatch/s.Segment:
		s.Batch = s.Streams * s.Segment
		return []string{"batch"}
	case given("batch") && !given("streams"):
		s.Streams = max(1, s.Batch/s.Segment)
		for s.Batch%s.Streams != 0 {
			s.Streams--
		}
		s.Segment = s.Batch / s.Streams
		return []string{"segment", "streams"}
	}
	return nil
}

// Describe returns all settings with their sources, one per line, under the headings of their sections.
func (l *Loader) Describe() string {
	return l.settings.render(func(s setting) (comment string, written bool) { return l.origin[s.name], true })
}
