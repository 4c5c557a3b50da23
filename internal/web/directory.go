package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	// readers is how many files are read at the same time.
	readers = 8
	// tailSize is enough for the last rows of a progress.csv, in bytes.
	tailSize = 4 << 10
	// maxSmall bounds what is read of a run's small files, in bytes; a complete configuration has less than 4 KiB.
	maxSmall = 256 << 10
	// A scan is followed by another after a pause of scanPause or, if that is longer, of ten times its duration, once
	// somebody asks.
	scanPause = time.Second
	// scanTimeout ends a scan of a store that hangs.
	scanTimeout = 10 * time.Minute
	// aliveFor is how long after its last sign of life a run without a coordinator counts as running, in addition to
	// the time of four iterations.
	aliveFor = time.Minute
)

// Directory is the source of the runs in a store: every directory with a config.yaml, and the last of a run's epochs.
// It reads only the configurations, and the ends of the tables, that have changed since its last scan.
type Directory struct {
	store store.Store
	now   func() time.Time

	mu       sync.Mutex
	runs     []Run
	known    map[string]*known // by the runs' directories
	err      error
	scanning chan struct{} // closed at the end of a scan; nil if there is none
	next     time.Time     // of a scan
	stale    time.Time     // from then on, runs are too old to be shown

	settings map[string]map[string]string // by the lines that runs share; used by one scan at a time
}

// known is a run, and the files that it was read from. A file that does not exist has no key.
type known struct {
	run                                    Run
	config, progress, evaluations, outcome store.File
	ended                                  progress.Outcome // as outcome has it
	lock                                   string           // key of the lock's file
	shared                                 string           // lines of its settings that other runs have, to be parsed
}

// NewDirectory returns the source of the runs in a store.
func NewDirectory(s store.Store) *Directory {
	return &Directory{store: s, now: time.Now, settings: map[string]map[string]string{}}
}

// Store implements [Source].
func (d *Directory) Store() store.Store { return d.store }

// Runs implements [Source]. It waits for the first scan, and for one after a time in which nobody asked; all others run
// in the background.
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

// read lists the store, and reads the changed files.
func (d *Directory) read(ctx context.Context, before map[string]*known) ([]Run, map[string]*known, error) {
	files, err := d.store.Files(ctx, ".")
	if err != nil {
		return nil, nil, err
	}
	all := newest(files)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for directory, now := range all {
		was := before[directory]
		if was == nil {
			was = &known{run: now.run}
		}
		now.run, now.ended = was.run, was.ended
		group.Go(func() error { return now.read(groupCtx, d.store, was) })
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
		run.State = k.state(d.now(), d.locked(k.lock))
		if run.ETA = None; run.State == Running {
			run.ETA = run.Remaining()
		} else if run.State == State(k.ended.State) {
			run.Reason = k.ended.Reason
		}
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b Run) int { return strings.Compare(a.Name, b.Name) })
	return runs, all, nil
}

// newest finds the run directories among files: the last of a run's epochs.
func newest(files []store.File) map[string]*known {
	directories := map[string]*known{}
	for _, f := range files {
		directory := path.Dir(f.Key)
		if store.Hidden(f.Key) {
			continue
		}
		k := directories[directory]
		if k == nil {
			k = new(known)
		}
		switch path.Base(f.Key) {
		case config.FileName:
			k.config = f
		case progress.RowsName:
			k.progress = f
		case progress.EvaluationsName:
			k.evaluations = f
		case progress.OutcomeName:
			k.outcome = f
		case progress.LockName:
			k.lock = f.Key
		default:
			continue
		}
		directories[directory] = k
	}
	maps.DeleteFunc(directories, func(_ string, k *known) bool { return k.config.Key == "" })
	last := map[string]uint64{} // epoch of each run
	for directory := range directories {
		home, epoch := epochs.Split(directory)
		last[home] = max(last[home], epoch)
	}
	maps.DeleteFunc(directories, func(directory string, k *known) bool {
		home, epoch := epochs.Split(directory)
		k.run = Run{Name: home, Directory: directory, Epoch: epoch, Row: Row{Return: None, Best: None}, Elapsed: None}
		if epoch > 0 {
			k.run.Logs = epochs.Logs(home)
		}
		return epoch < last[home]
	})
	return directories
}

// read reads the files that differ from those of the last scan.
func (k *known) read(ctx context.Context, in store.Store, was *known) error {
	gone := func(err error) error { // a file may be removed while it is read
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if k.config != was.config {
		data, err := readSmall(ctx, in, k.config.Key)
		if err != nil {
			return gone(err)
		}
		k.configure(data, in.String())
	}
	if k.progress != was.progress && k.progress.Size > 0 {
		tail, err := in.GetFrom(ctx, k.progress.Key, max(0, k.progress.Size-tailSize))
		if err != nil {
			return gone(err)
		}
		k.end(tail)
	}
	if k.evaluations != was.evaluations && k.evaluations.Size > 0 {
		file, err := in.Open(ctx, k.evaluations.Key, 0)
		if err == nil {
			k.run.Best, err = bestOf(file)
			file.Close()
		}
		if err != nil {
			return gone(err)
		}
	}
	if k.ended = (progress.Outcome{}); k.outcome.Key != "" {
		data, err := readSmall(ctx, in, k.outcome.Key)
		if err == nil {
			err = yaml.Unmarshal(data, &k.ended)
		}
		if err != nil {
			return gone(err)
		}
	}
	k.run.Heard = latest(k.config.Modified, k.progress.Modified, k.evaluations.Modified, k.outcome.Modified)
	return nil
}

// configure reads a config.yaml as learners write it, a line name: value for each setting.
func (k *known) configure(data []byte, root string) {
	r := &k.run
	given := parseSettings(string(data))
	r.Task, r.Algorithm = strings.Clone(given["env"]), strings.Clone(given["algorithm"]) // so that the file is not kept
	r.Estimator, r.Seed = strings.Clone(given["estimator"]), strings.Clone(given["seed"])
	iterations, _ := strconv.ParseUint(given["iterations"], 10, 64)
	steps, _ := strconv.ParseUint(given["steps"], 10, 64)
	r.Iterations, r.AllSteps = Number(iterations), Number(steps)
	var shared strings.Builder
	for line := range strings.Lines(string(data)) {
		if name, _, found := setting(line); found && !own[name] {
			shared.WriteString(line)
		}
	}
	k.shared = shared.String()
	if r.Name == "." { // the store is the run's directory
		r.Name = path.Join(r.Task, path.Base(root))
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

// The columns in a row of progress.csv and of evaluations.csv, to which later versions only add at the end.
var rowColumns, evaluationColumns = progress.Columns[progress.Row](), progress.Columns[progress.Evaluation]()

// numberAt returns the number in one of a row's columns.
func numberAt(line []byte, columns []string, name string) Number {
	row := bytes.Split(line, []byte(","))
	if at := slices.Index(columns, name); at < len(row) {
		return Number(parseNumber(row[at]))
	}
	return None
}

// end reads the end of a progress.csv.
func (k *known) end(tail []byte) {
	tail = tail[:bytes.LastIndexByte(tail, '\n')+1] // half a line may follow
	lines := bytes.Split(bytes.TrimSuffix(tail, []byte("\n")), []byte("\n"))
	last := lines[len(lines)-1]
	iteration := numberAt(last, rowColumns, "iteration")
	if !iteration.given() { // the header
		return
	}
	k.run.Iteration, k.run.Steps = iteration+1, numberAt(last, rowColumns, "steps")
	k.run.Elapsed = numberAt(last, rowColumns, "seconds_elapsed")
	for _, line := range slices.Backward(lines) { // no episode may have ended in a batch of segments
		if k.run.Return = numberAt(line, rowColumns, "return_mean"); k.run.Return.given() {
			return
		}
	}
}

// bestOf returns the highest mean return in an evaluations.csv.
func bestOf(file io.Reader) (Number, error) {
	best, lines := None, bufio.NewScanner(file)
	for lines.Scan() {
		mean := numberAt(lines.Bytes(), evaluationColumns, "mean_action_return")
		if mean.given() && !(mean <= best) {
			best = mean
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) { // the rest is no table
		return best, nil
	}
	return best, lines.Err()
}

// readSmall reads a small file, or the beginning of one that is not.
func readSmall(ctx context.Context, in store.Store, key string) ([]byte, error) {
	file, err := in.Open(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxSmall))
}

// lock is what is known of a run's lock.
type lock int

const (
	unknown lock = iota // it has none, or it is on another machine
	free
	held
)

// locked returns whether a learner of this machine, or of one that shares its file system, holds a lock.
func (d *Directory) locked(key string) lock {
	local, ok := d.store.(*store.Directory)
	if !ok || key == "" {
		return unknown
	}
	file, err := os.OpenInRoot(local.String(), filepath.FromSlash(key))
	if err != nil {
		return unknown
	}
	defer file.Close() // and with it the lock
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); {
	case err == nil:
		return free
	case errors.Is(err, syscall.EWOULDBLOCK):
		return held
	}
	return unknown
}

// state judges a run by its files. Without a lock that says so, a run whose files change is running.
func (k *known) state(now time.Time, l lock) State {
	r := &k.run
	done, all := r.progress()
	switch {
	case all > 0 && done >= all:
		return Done
	case l == held:
		return Running
	case k.ended.State != "":
		return State(k.ended.State)
	case l == free:
		return Stopped
	}
	perIteration := r.Elapsed / r.Iteration
	alive := aliveFor
	if perIteration > 0 && perIteration < 1e6 {
		alive += time.Duration(4 * float64(perIteration) * float64(time.Second))
	}
	if now.Sub(r.Heard) > alive {
		return Stopped
	}
	return Running
}

// own are the settings in which runs may differ whatever they are compared by.
var own = map[string]bool{"seed": true, "run_dir": true, "listen": true, "nats": true, "actors": true, "device": true,
	"worker_name": true, "credentials": true, "insecure_listen": true, "metrics_listen": true, "http": true,
	"pprof": true, "log_level": true, "log_format": true, "worker": true, "coordinator": true, "checkpoints": true,
	"lease_term": true, "keep_checkpoints": true}

// sameMap reports whether a and b are one map.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
