package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/external"
)

// Which of a run's checkpoints, if not a number.
const (
	BestCheckpoint   = "best"
	NewestCheckpoint = "newest"
)

// suffix is that of a checkpoint's file.
var suffix = path.Ext(BestName)

// Checkpoint is a checkpoint that was found.
type Checkpoint struct {
	Location string // where
	SHA256   string // of the file, in hexadecimal
	State    *State
	Settings map[string]string // of its run, by name
}

// Argument is what a command requires that takes one run or checkpoint. It is a cobra.PositionalArgs.
func Argument(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: name one run, such as runs/Swimmer-v5/trpo-uapg-s1, or one checkpoint's file", cmd.Name())
	}
	return nil
}

// Flag adds the flag --checkpoint, which says which of a run's checkpoints such a command opens.
func Flag(flags *pflag.FlagSet, which *string) {
	flags.StringVar(which, "checkpoint", "", "of a run: best, newest or an iteration's number (default best)")
}

// Open returns a checkpoint. name is a run's directory, a checkpoint's file (*.safetensors), or one of these in a bucket,
// s3://bucket/...; which says which of a run's checkpoints: Best, Newest, or an iteration's number ("": Best).
func OpenCheckpoint(ctx context.Context, name, which string) (*Checkpoint, error) {
	r, err := Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return r.Open(ctx, which)
}

// Run is where a run, or a single checkpoint, is: a key of a store; "." if the run is all that is there.
type Location struct {
	Store store.Store
	Key   string
}

// ErrNone is wrapped by errors about a run that has no checkpoints.
var ErrNone = errors.New("it has no checkpoints")

// Find returns the run or checkpoint of a name, as [Open] takes it.
func Find(ctx context.Context, name string) (r Location, err error) {
	if strings.HasPrefix(name, store.Scheme) {
		name = strings.TrimRight(name, "/")
		if strings.Count(name, "/") < 3 {
			return r, fmt.Errorf("%s: name a run in the bucket, such as %s/NAME", name, name)
		}
		r.Key = path.Base(name)
		r.Store, err = store.Open(ctx, name[:strings.LastIndexByte(name, '/')])
		return r, err
	}
	full, err := filepath.Abs(name)
	if err == nil {
		_, err = os.Stat(full) // a store would create directories
	}
	if err != nil {
		return r, fmt.Errorf("neither a run nor a checkpoint: %w", err)
	}
	r.Key = filepath.Base(full)
	r.Store, err = store.OpenDirectory(filepath.Dir(full))
	return r, err
}

// List returns what Open takes for which: Best if there is one, then the iterations that have checkpoints, in order. The error
// wraps ErrNone if there are none. For a single checkpoint List returns nothing.
func (r Location) List(ctx context.Context) (names []string, err error) {
	if strings.HasSuffix(r.Key, suffix) {
		return nil, nil
	}
	keys, err := r.keys(ctx)
	if err != nil {
		return nil, err
	}
	var iterations []uint64
	for _, f := range checkpoints(r.Key, keys) {
		if iteration, ok := f.iteration(); ok {
			iterations = append(iterations, iteration)
		} else if f.name == BestCheckpoint && len(names) == 0 {
			names = append(names, BestCheckpoint)
		}
	}
	slices.Sort(iterations)
	for _, iteration := range slices.Compact(iterations) {
		names = append(names, strconv.FormatUint(iteration, 10))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s is no run: %w", r.Key, ErrNone)
	}
	return names, nil
}

// keys returns those of the run's files.
func (r Location) keys(ctx context.Context) (keys []string, err error) {
	files, err := r.Store.Files(ctx, r.Key)
	for _, f := range files {
		keys = append(keys, f.Key)
	}
	return keys, err
}

// Open is the function Open for the run. If the key is the name of runs that were trained by workers, it is that of the last (with the
// highest ID), and the files are in the directory of its latest epoch.
func (r Location) Open(ctx context.Context, which string) (*Checkpoint, error) {
	s, key := r.Store, r.Key
	if strings.HasSuffix(key, suffix) {
		if which != "" {
			return nil, fmt.Errorf("%s is one checkpoint; choose among several by naming the run", key)
		}
	} else {
		keys, err := r.keys(ctx)
		if err != nil {
			return nil, err
		}
		if key, err = choose(key, keys, cmp.Or(which, BestCheckpoint)); err != nil {
			return nil, err
		}
	}
	data, err := s.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%v has no %s", s, key)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	c := &Checkpoint{Location: strings.TrimSuffix(s.String(), "/") + "/" + key, SHA256: hex.EncodeToString(sum[:])}
	if c.State, c.Settings, err = Decode(data); err != nil {
		err = fmt.Errorf("%s: %w", c.Location, err)
		if errors.Is(err, ErrCorrupt) && which != NewestCheckpoint && !strings.HasSuffix(r.Key, suffix) {
			err = fmt.Errorf("%w; --checkpoint newest names another", err)
		}
		return nil, err
	}
	return c, nil
}

// Directory returns the run directory of a run: its own, or if it was trained by workers that of its latest epoch; of several runs of
// the name, that of the last.
func Directory(run string) (string, error) {
	var directories []string
	for _, pattern := range []string{"epoch-*", "id-*/epoch-*"} {
		some, err := filepath.Glob(filepath.Join(run, pattern))
		if err != nil {
			return "", err
		}
		directories = append(directories, some...)
	}
	last, lastID, lastEpoch := run, uint64(0), uint64(0)
	for _, directory := range directories {
		id, rest, _ := epochs.CutID(filepath.ToSlash(strings.TrimPrefix(directory, filepath.Clean(run)+string(filepath.Separator))))
		epoch, _, _ := epochs.CutEpoch(rest)
		if epoch > 0 && cmp.Or(cmp.Compare(id, lastID), cmp.Compare(epoch, lastEpoch)) > 0 {
			last, lastID, lastEpoch = directory, id, epoch
		}
	}
	return last, nil
}

// file is a checkpoint's file.
type file struct {
	key, name string // name is without its suffix
	id, epoch uint64 // of the run, if a worker trained it
}

// iteration returns the iteration of a checkpoint that has one in its name.
func (f file) iteration() (iteration uint64, ok bool) {
	_, digits, _ := strings.Cut(f.name, "-")
	iteration, err := strconv.ParseUint(digits, 10, 64)
	return iteration, err == nil && f.name+suffix == FileName(iteration)
}

// checkpoints returns the checkpoints of a run, the last of its name, among the keys of its files.
func checkpoints(run string, keys []string) (there []file) {
	for _, key := range keys {
		rest := strings.TrimPrefix(key, run+"/")
		f := file{key: key}
		f.id, rest, _ = epochs.CutID(rest)
		f.epoch, rest, _ = epochs.CutEpoch(rest)
		if path.Dir(rest) != "checkpoints" || !strings.HasSuffix(rest, suffix) {
			continue
		}
		f.name = strings.TrimSuffix(path.Base(rest), suffix)
		if len(there) > 0 && f.id > there[0].id { // of a later run
			there = nil
		}
		if len(there) > 0 && f.id < there[0].id {
			continue
		}
		there = append(there, f)
	}
	return there
}

// choose returns the key of a run's checkpoint among the keys of its files.
func choose(run string, keys []string, which string) (string, error) {
	there := checkpoints(run, keys)
	if len(there) == 0 {
		return "", fmt.Errorf("%s is no run: %w", run, ErrNone)
	}
	var wanted []file
	var names []string
	number, err := strconv.ParseUint(which, 10, 64)
	for _, f := range there {
		names = append(names, f.name)
		if f.name == which || err == nil && f.name+suffix == FileName(number) || which == NewestCheckpoint && f.name != BestCheckpoint {
			wanted = append(wanted, f)
		}
	}
	if len(wanted) == 0 {
		return "", fmt.Errorf("%s has no checkpoint %q: there are %s", run, which, strings.Join(names, ", "))
	}
	last := slices.MaxFunc(wanted, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	return last.key, nil
}

// Task returns the name of the task that the policy was trained on.
func (c *Checkpoint) Task() string { return c.Settings["env"] }

// Spec returns the description of that task, which may be that of a task file.
func (c *Checkpoint) Spec() (sim.Spec, error) {
	text := c.Settings["task"]
	if text == "" {
		return sim.Lookup(c.Task())
	}
	f, err := external.Parse([]byte(text))
	if err != nil {
		return sim.Spec{}, fmt.Errorf("%s: its task: %w", c.Location, err)
	}
	return f.Spec(), nil
}

// Policy is what an actor plays: see policy.NewActor, which checks it.
type Policy struct {
	Shape      policy.Shape
	Params     []float64
	Normalizer policy.Normalizer
	Moments    policy.Moments // of which the normaliser is made
}

// Policy returns the policy in the checkpoint.
func (c *Checkpoint) Policy() (*Policy, error) {
	var recorded config.Settings
	for _, name := range []string{"hidden", "clip"} {
		if err := recorded.Set(name, c.Settings[name]); err != nil {
			return nil, fmt.Errorf("%s: its settings: %w", c.Location, err)
		}
	}
	moments := policy.Moments{Mean: c.State.Arrays["normalizer.mean"], M2: c.State.Arrays["normalizer.m2"]}
	if count := c.State.Arrays["normalizer.count"]; len(count) == 1 {
		moments.Count = count[0]
	}
	params := c.State.Arrays["policy.params"]
	shape, ok := shapeOf(len(moments.Mean), recorded.Hidden, len(params))
	if !ok || len(moments.M2) != len(moments.Mean) {
		return nil, fmt.Errorf("%s: there is no policy in it, or one of another size than its settings say", c.Location)
	}
	return &Policy{shape, params, moments.Normalizer(recorded.Clip), moments}, nil
}

// PolicyOf returns the policy in the checkpoint if it is of that shape.
func (c *Checkpoint) PolicyOf(shape policy.Shape) (*Policy, error) {
	p, err := c.Policy()
	if err != nil {
		return nil, err
	}
	if own := p.Shape; own.Observation != shape.Observation || own.Action != shape.Action || !slices.Equal(own.Hidden, shape.Hidden) {
		return nil, fmt.Errorf("%s: its policy has %s, but this run's has %s: choose another --env or --hidden", c.Location, describe(own), describe(shape))
	}
	if _, err := policy.NewActor(p.Shape, p.Params, p.Normalizer); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Location, err)
	}
	return p, nil
}

// describe names a shape's sizes.
func describe(s policy.Shape) string {
	return fmt.Sprintf("%d observations, hidden layers %v and %d actions", s.Observation, s.Hidden, s.Action)
}

// shapeOf returns the shape of so many observed dimensions, these hidden layers and so many parameters. Their number grows
// by as many with each dimension of the action.
func shapeOf(observed int, hidden []int, params int) (shape policy.Shape, ok bool) {
	shape = policy.Shape{Observation: observed, Action: 1, Hidden: hidden}
	if shape.Validate() != nil {
		return shape, false
	}
	first := shape.NumParams()
	shape.Action = 2
	each := shape.NumParams() - first
	shape.Action = 1 + (params-first)/each
	return shape, shape.Validate() == nil && shape.NumParams() == params
}
