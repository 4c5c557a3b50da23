package config

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Bounds of the lease term. With a shorter one, a loaded machine loses its runs; with a longer one, no worker takes
// over the run of one that died.
const (
	minLeaseTerm = 500 * time.Millisecond
	maxLeaseTerm = time.Hour
)

// WorkerLoader gathers the settings of a worker.
type WorkerLoader struct {
	*sources
	worker Worker
}

// NewWorkerLoader adds a flag for every setting of a worker, and --config, to flags.
func NewWorkerLoader(flags *pflag.FlagSet) *WorkerLoader {
	l := new(WorkerLoader)
	setDefaults(rows(&l.worker), map[string]string{"program": "worker"})
	l.sources = newSources(flags, &l.worker)
	return l
}

// Load resolves the settings as [Loader.Load] does.
func (l *WorkerLoader) Load(environ []string) (*Worker, error) {
	environment := func() error { return l.readEnvironment(environ) }
	for _, read := range []func() error{l.readFlags, environment, l.readFile, l.worker.validate} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return &l.worker, nil
}

// validate is [Settings.Validate] for a worker.
func (w *Worker) validate() error {
	var v findings
	w.Machine.validate(&v)
	v.require(w.Coordinator != "", "--coordinator: give its URL, from which the worker takes its runs")
	for _, text := range w.Coordinators() {
		u, err := url.Parse(text)
		v.require(err == nil && u.User == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"),
			"--coordinator: must be a URL such as http://127.0.0.1:7070, or several separated by commas, without "+
				"passwords")
	}
	v.require(w.Checkpoints != "",
		"--checkpoints: give the store of all workers' checkpoints: a shared directory, or s3://bucket/prefix")
	v.require(w.Checkpoints == "" || strings.Contains(w.Checkpoints, "://") || filepath.IsAbs(w.Checkpoints),
		"--checkpoints %s: must be the same directory for all workers: write an absolute path", w.Checkpoints)
	v.require(w.MaxToKeep >= 1, "--max-to-keep %d: must be at least 1", w.MaxToKeep)
	v.require(w.LeaseTerm >= minLeaseTerm && w.LeaseTerm <= maxLeaseTerm,
		"--lease-term %v: must be from %v to %v", w.LeaseTerm, minLeaseTerm, maxLeaseTerm)
	return v.join()
}

// Coordinators returns the URLs in Coordinator.
func (w *Worker) Coordinators() []string {
	var urls []string
	for text := range strings.SplitSeq(w.Coordinator, ",") {
		if text = strings.TrimSpace(text); text != "" {
			urls = append(urls, text)
		}
	}
	return urls
}
