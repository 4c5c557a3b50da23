package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/runs"
)

const (
	progressName    = "progress.csv"
	evaluationsName = "evaluations.csv"
	// readers is how many files are read at the same time.
	readers = 8
	// tailSize is enough for the last rows of a progress.csv, in bytes.
	tailSize = 4 << 10
	// maxConfig bounds a configuration file, in bytes; a complete one has less than 4 KiB.
	maxConfig = 64 << 10
	// A scan is followed by another after a pause of scanPause, or of ten times its duration if that is longer, if anybody asks.
	scanPause = time.Second
	// scanTimeout ends a scan of a store that hangs.
	scanTimeout = 10 * time.Minute
	// aliveFor is how long after its last sign of life a run without a coordinator counts as running, besides the time of four
	// iterations.
	aliveFor = time.Minute
)

// Directory is the source of the runs in a store: every directory with a config.yaml, and of several epochs of a run the last. It
// reads the configurations, and the ends of the tables, of those that have changed since it was last asked.
type Directory struct {
	store store.Store
	now   func() time.Time

	mu       sync.Mutex
	runs     []Run
	known    map[string]*known // by the runs' directories
	err      error
	scanning chan struct{} // closed at the end of a scan; nil: there is none
	next     time.Time     // of a scan
	stale    time.Time     // from when on runs are too old to be shown

	settings map[string]map[string]string // of runs that differ in their seeds only, by the lines that they share; used by one scan at a time
}

// known is what a scan keeps for the next.
type known struct {
	run                           Run
	config, progress, evaluations store.File
	shared                        string // lines of the settings that it shares with other runs, until they are parsed
}

// NewDirectory returns the source of the runs in a store.
func NewDirectory(s store.Store) *Directory {
	return &Directory{store: s, now: time.Now, settings: map[string]map[string]string{}}
}

// Store implements [Source].
func (d *Directory) Store() store.Store { return d.store }

// Runs implements [Source]. It waits for the first scan, and for one after a time in which nobody asked; others are made in the
// background.
func (d *Directory) Runs(ctx context.Context) ([]Run, error) {
	d.mu.Lock()
	now := d.now()
	if d.scanning == nil && !now.Before(d.next) {
		d.scanning = make(chan struct{})
		go d.scan()
	}
	scanning := d.scanning
	if now.Before(d.stale) {
		scanning = nil
	}
	d.mu.Unlock()
	if scanning != nil {
		select {
		case <-scanning:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs, d.err
}

func (d *Directory) scan() {
	ctx, cancel := context.WithTimeout(context.Background(), scanTimeout)
	defer cancel()
	start := d.now()
	runs, all, err := d.read(ctx, d.known)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err = err; err == nil {
		d.runs, d.known = runs, all
	}
	end := d.now()
	pause := max(scanPause, 10*end.Sub(start))
	d.next, d.stale = end.Add(pause), end.Add(2*pause)
	close(d.scanning)
	d.scanning = nil
}

// read lists the store, and reads what is new in it.
func (d *Directory) read(ctx context.Context, before map[string]*known) ([]Run, map[string]*known, error) {
	files, err := d.store.Files(ctx, ".")
	if err != nil {
		return nil, nil, err
	}
	directories := newest(files)
	all := make(map[string]*known, len(directories))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for directory, now := range directories {
		was := before[directory]
		if was == nil {
			was = &known{run: Run{Return: None, Best: None, Elapsed: None}}
		}
		if was.config == now.config && was.progress == now.progress && was.evaluations == now.evaluations {
			all[directory] = was
			continue
		}
		all[directory] = now
		group.Go(func() error { return d.readRun(groupCtx, was, now) })
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	runs := make([]Run, 0, len(all))
	for _, k := range all {
		if k.shared != "" {
			if d.settings[k.shared] == nil {
				d.settings[k.shared] = parseSettings(k.shared)
			}
			k.run.Settings, k.shared = d.settings[k.shared], ""
		}
		run := k.run
		run.State, run.ETA = k.state(d.now())
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b Run) int { return strings.Compare(a.Name, b.Name) })
	return runs, all, nil
}

// newest finds the run directories among files, of several epochs of a run the last.
func newest(files []store.File) map[string]*known {
	directories := map[string]*known{}
	for _, f := range files {
		directory, name := path.Dir(f.Key), path.Base(f.Key)
		k := directories[directory]
		if k == nil && (name == config.FileName || name == progressName || name == evaluationsName) {
			k = &known{}
			directories[directory] = k
		}
		switch name {
		case config.FileName:
			k.config = f
		case progressName:
			k.progress = f
		case evaluationsName:
			k.evaluations = f
		}
	}
	last := map[string]uint64{} // epoch of each run
	for directory, k := range directories {
		if k.config.Key == "" {
			delete(directories, directory)
		} else if home, epoch := epochs.Split(directory); epoch > last[home] {
			last[home] = epoch
		}
	}
	for directory, k := range directories {
		home, epoch := epochs.Split(directory)
		if epoch < last[home] {
			delete(directories, directory)
			continue
		}
		k.run = Run{Name: home, Directory: directory, Epoch: epoch, Logs: epochs.Logs(home), Return: None, Best: None, Elapsed: None}
		if epoch == 0 {
			k.run.Logs = ""
		}
	}
	return directories
}

// readRun completes now with the files that differ from those before.
func (d *Directory) readRun(ctx context.Context, was, now *known) error {
	run := &now.run
	gone := func(err error) error { // a file may be removed while it is read
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if now.config == was.config {
		run.Name, run.Settings, run.Iterations, run.AllSteps = was.run.Name, was.run.Settings, was.run.Iterations, was.run.AllSteps
		run.Task, run.Algorithm, run.Estimator, run.Seed = was.run.Task, was.run.Algorithm, was.run.Estimator, was.run.Seed
	} else if now.config.Size <= maxConfig {
		data, err := d.store.Get(ctx, now.config.Key)
		if err != nil {
			return gone(err)
		}
		now.configure(data)
	}
	run.Iteration, run.Steps, run.Return, run.Elapsed = was.run.Iteration, was.run.Steps, was.run.Return, was.run.Elapsed
	if now.progress != was.progress && now.progress.Size > 0 {
		tail, err := d.store.GetFrom(ctx, now.progress.Key, max(0, now.progress.Size-tailSize))
		if err != nil {
			return gone(err)
		}
		now.end(tail)
	}
	run.Best = was.run.Best
	if now.evaluations != was.evaluations && now.evaluations.Size > 0 {
		data, err := d.store.Get(ctx, now.evaluations.Key)
		if err != nil {
			return gone(err)
		}
		run.Best = bestOf(data)
	}
	run.Heard = latest(now.config.Modified, now.progress.Modified, now.evaluations.Modified)
	return nil
}

// configure reads a config.yaml as learners write it, a line name: value for each setting.
func (k *known) configure(data []byte) {
	r := &k.run
	fields := map[string]*string{"env": &r.Task, "algorithm": &r.Algorithm, "estimator": &r.Estimator, "seed": &r.Seed}
	var shared strings.Builder
	for line := range strings.Lines(string(data)) {
		name, value, found := setting(line)
		if !found {
			continue
		}
		if field := fields[name]; field != nil {
			*field = strings.Clone(value)
		}
		switch name {
		case "iterations":
			r.Iterations, _ = strconv.ParseUint(value, 10, 64)
		case "steps":
			r.AllSteps, _ = strconv.ParseUint(value, 10, 64)
		}
		if !own[name] {
			shared.WriteString(line)
		}
	}
	k.shared = shared.String()
	if r.Name == "." { // the store is the run's directory
		r.Name = fmt.Sprintf("%s/%s-%s-s%s", r.Task, r.Algorithm, r.Estimator, r.Seed)
	}
}

// setting reads a line of a config.yaml.
func setting(line string) (name, value string, found bool) {
	name, value, found = strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
	if !found || strings.HasPrefix(name, "#") || strings.HasPrefix(name, " ") {
		return "", "", false
	}
	value = strings.TrimSpace(value)
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return name, value, true
}

// parseSettings returns all settings of a config.yaml.
func parseSettings(data string) map[string]string {
	settings := map[string]string{}
	for line := range strings.Lines(data) {
		if name, value, found := setting(line); found {
			settings[name] = value
		}
	}
	return settings
}

// columnAt are the places of columns in a row of progress.csv, to which later versions only add at the end.
var columnAt = func() map[string]int {
	at := map[string]int{}
	for i, name := range runs.Columns[runs.Row]() {
		at[name] = i
	}
	return at
}()

// end reads the end of a progress.csv.
func (k *known) end(tail []byte) {
	tail = tail[:bytes.LastIndexByte(tail, '\n')+1] // half a line may follow
	lines := bytes.Split(bytes.TrimSuffix(tail, []byte("\n")), []byte("\n"))
	for i, line := range slices.Backward(lines) {
		row := bytes.Split(line, []byte(","))
		number := func(column string) Number {
			if at := columnAt[column]; at < len(row) {
				if v, err := strconv.ParseFloat(string(row[at]), 64); err == nil {
					return Number(v)
				}
			}
			return None
		}
		if i == len(lines)-1 {
			iteration := number("iteration")
			if !iteration.given() { // the header
				return
			}
			k.run.Iteration, k.run.Steps, k.run.Elapsed = uint64(iteration)+1, uint64(number("steps")), number("seconds_elapsed")
		}
		if k.run.Return = number("return_mean"); k.run.Return.given() {
			return // no episode may have ended in a batch of segments
		}
	}
}

// bestOf returns the highest mean return in an evaluations.csv.
func bestOf(data []byte) Number {
	best := None
	column := slices.Index(runs.Columns[runs.Evaluation](), "mean_action_return")
	for line := range bytes.Lines(data) {
		row := bytes.Split(bytes.TrimRight(line, "\n"), []byte(","))
		if column < len(row) {
			if v, err := strconv.ParseFloat(string(row[column]), 64); err == nil && !(Number(v) <= best) {
				best = Number(v)
			}
		}
	}
	return best
}

// state judges a run by its files.
func (k *known) state(now time.Time) (State, Number) {
	r := &k.run
	if length := r.length(); length != (config.Length{}) && length.Reached(r.Iteration, r.Steps) {
		return registry.Done, None
	}
	perIteration := r.Elapsed / Number(r.Iteration)
	alive := aliveFor
	if perIteration > 0 && perIteration < 1e6 {
		alive += time.Duration(4 * float64(perIteration) * float64(time.Second))
	}
	if now.Sub(r.Heard) > alive {
		return Stopped, None
	}
	return registry.Running, r.Remaining()
}

// Remaining returns how many seconds the rest of a run takes if it goes on as fast as so far.
func (r *Run) Remaining() Number {
	done, all := r.length().Of(r.Iteration, r.Steps)
	if done == 0 || all < done {
		return None
	}
	return r.Elapsed / Number(done) * Number(all-done)
}

// own are settings that a run has of its own, whatever it is compared with.
var own = map[string]bool{"seed": true, "run_dir": true, "listen": true, "nats": true, "actors": true, "device": true, "worker_name": true,
	"credentials": true, "insecure_listen": true, "metrics_listen": true, "http": true, "pprof": true, "log_level": true, "log_format": true,
	"worker": true, "coordinator": true, "checkpoints": true, "lease_term": true, "keep_checkpoints": true}

// sameMap reports whether a and b are one map.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
