package config

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/commandline"
)

// usual lists the flags that learner --help shows.
var usual = []commandline.Group{
	{Title: "The task and the run", Flags: []string{
		"env", "task", "preset", "seed", "steps", "iterations", "run-dir", "resume", "force", "dry-run", "config"}},
	{Title: "The method", Flags: []string{"algorithm", "estimator", "batch", "gamma", "max-kl", "learning-rate"}},
	{Title: "Where it runs", Flags: []string{"device", "actors", "nats", "listen", "http"}},
}

// Usage returns the groups of flags that learner --help shows, or all of them.
func (l *Loader) Usage(all bool) []commandline.Group {
	if all {
		return l.groups()
	}
	return usual
}

// Usage returns the groups of a worker's flags.
func (l *WorkerLoader) Usage() []commandline.Group { return l.groups() }

// groups returns the flags by section, and in the last group --config too.
func (s *sources) groups() (all []commandline.Group) {
	for _, row := range s.settings {
		if len(all) == 0 || all[len(all)-1].Title != row.section.Title {
			all = append(all, commandline.Group{Title: row.section.Title})
		}
		last := &all[len(all)-1]
		last.Flags = append(last.Flags, row.flag())
	}
	last := &all[len(all)-1]
	last.Flags = append(last.Flags, "config")
	return all
}

//go:embed foreign.yaml
var foreignFile []byte

// foreign returns the answers to other programs' flags, by these flags, separated by spaces.
var foreign = sync.OnceValue(func() (answers map[string]string) {
	decode(foreignFile, &answers)
	return answers
})

// Explain is [commandline.Explain] for the flags of a Loader or WorkerLoader: it answers the names that other programs
// have for a setting, and in a worker those of a run's settings.
func Explain(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return commandline.Explain(flags, err)
	}
	name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
	if flags.Lookup("env") == nil &&
		slices.ContainsFunc(rows(new(Settings)), func(row value) bool { return row.flag() == name }) {
		return fmt.Errorf("%w: the coordinator determines what a worker learns; put the setting into the sweep", err)
	}
	for flags, answer := range foreign() {
		if slices.Contains(strings.Fields(flags), name) {
			return fmt.Errorf("%w: %s", err, answer)
		}
	}
	return commandline.Explain(flags, err)
}
