package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/sim"
)

// Bounds of the lease term. With a shorter one, a loaded machine loses its runs; with a longer one, no worker takes over
// the run of one that died.
const (
	minLeaseTerm = 500 * time.Millisecond
	maxLeaseTerm = time.Hour
)

// loadWorker resolves the settings of a worker: where and how it trains. The coordinator determines what it trains.
func (l *Loader) loadWorker() (*Settings, error) {
	var v findings
	for _, s := range l.settings.all() {
		origin := l.origin[s.name]
		switch {
		case origin == "", origin == l.settings.Unit(): // it was dropped for the other length
		case s.scope == result || s.scope == length:
			v.require(false, "--%s (%s): with --worker the coordinator determines what is learned; leave it out, or put it into the sweep", s.flag(), origin)
		case slices.Contains([]string{"run_dir", "resume", "force", "dry_run"}, s.name):
			v.require(false, "--%s (%s): applies only to a learner without --worker, which has one run", s.flag(), origin)
		}
	}
	s := &l.settings
	preset, err := ForTask(sim.Tasks()[0].Name, NPG, UAPG, "") // no matter which
	if err != nil {
		return nil, err
	}
	values := preset.all()
	for i, setting := range s.all() {
		if err := l.give(setting, values[i].value.String(), "preset"); err != nil {
			return nil, fmt.Errorf("preset of %s: %w", setting.name, err)
		}
	}
	s.validateMachine(&v)
	s.validateWorker(&v)
	if err := v.join(); err != nil {
		return nil, err
	}
	return s, nil
}

// refuseWorkers refuses the flags that only a worker has. In the environment they may be meant for other programs.
func (l *Loader) refuseWorkers() error {
	for _, name := range []string{"coordinator", "checkpoints", "worker_name", "lease_term", "max_to_keep"} {
		if flag := l.flags[name]; flag.Changed {
			return fmt.Errorf("--%s: applies only to a worker, which takes its runs from a coordinator; add --worker, and leave out --env", flag.Name)
		}
	}
	return nil
}

// validateWorker checks the settings that only a worker has.
func (s *Settings) validateWorker(v *findings) {
	v.require(s.Coordinator != "", "--worker: add --coordinator URL, from which it takes its runs")
	for _, text := range s.Coordinators() {
		u, err := url.Parse(text)
		v.require(err == nil && u.User == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"),
			"--coordinator: must be a URL such as http://127.0.0.1:7070, or several separated by commas, without passwords")
	}
	v.require(s.Checkpoints != "", "--worker: add --checkpoints, the store of all workers' checkpoints: a shared directory, or s3://bucket/prefix")
	v.require(s.Checkpoints == "" || strings.Contains(s.Checkpoints, "://") || filepath.IsAbs(s.Checkpoints),
		"--checkpoints %s: must be the same directory for all workers, wherever they are started: write an absolute path", s.Checkpoints)
	v.require(s.MaxToKeep >= 1, "--max-to-keep %d: must be at least 1", s.MaxToKeep)
	v.require(s.LeaseTerm >= minLeaseTerm && s.LeaseTerm <= maxLeaseTerm, "--lease-term %v: must be from %v to %v", s.LeaseTerm, minLeaseTerm, maxLeaseTerm)
}

// Coordinators returns the URLs in Coordinator.
func (s *Settings) Coordinators() []string {
	var urls []string
	for text := range strings.SplitSeq(s.Coordinator, ",") {
		if text = strings.TrimSpace(text); text != "" {
			urls = append(urls, text)
		}
	}
	return urls
}

// OnMachine returns s with the machine settings of a worker, which do not affect the results. KeepCheckpoints remains
// that of s unless it is empty.
func (s *Settings) OnMachine(worker *Settings) (*Settings, error) {
	own, kept := *s, s.KeepCheckpoints
	values := worker.all()
	for i, setting := range own.all() {
		if setting.scope == machine {
			if err := setting.value.Set(values[i].value.String()); err != nil {
				return nil, fmt.Errorf("%s: %w", setting.name, err)
			}
		}
	}
	if len(kept) > 0 {
		own.KeepCheckpoints = kept
	}
	return &own, nil
}
