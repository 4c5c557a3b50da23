package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	"github.com/dbqpg/dbqpg/internal/hub"
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

// Checkpoint is a checkpoint that was found.
type Checkpoint struct {
	Location string // where
	SHA256   string // of the file, in hexadecimal
	State    *State
	Settings map[string]string // of its run, by name
}

// Argument requires one argument, a run or checkpoint. It is a cobra.PositionalArgs. It fetches a policy hub:NAME, and
// replaces the argument by the run's directory.
func Argument(cmd *cobra.Command, args []string) (err error) {
	if len(args) != 1 {
		return fmt.Errorf("%s: name one run, such as runs/Swimmer-v5/trpo-mc-s1, or a checkpoint's file", cmd.Name())
	}
	if name, ok := strings.CutPrefix(args[0], hub.Scheme); ok {
		args[0], err = hub.Fetch(cmd.Context(), name)
	}
	return err
}

// Flag adds the flag --checkpoint, which chooses among a run's checkpoints.
func Flag(flags *pflag.FlagSet, which *string) {
	flags.StringVar(which, "checkpoint", "",
		"checkpoint of a run: best, newest or an iteration's number (default best)")
}

// OpenCheckpoint returns a checkpoint. name is a run's directory, a checkpoint's file (*.safetensors), or one of these
// in a bucket, s3://bucket/...; which says which of a run's checkpoints: Best, Newest, or an iteration's number ("":
// Best).
func OpenCheckpoint(ctx context.Context, name, which string) (*Checkpoint, error) {
	r, err := Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return r.Open(ctx, which)
}

// Location is where a run, or a single checkpoint, is: a key of a store; "." if the run is all that is there.
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

// List returns the names that Open takes: best if there is one, then the iterations that have checkpoints, in order.
// The error wraps ErrNone if there are none. For a single checkpoint List returns nothing.
func (l Location) List(ctx context.Context) (names []string, err error) {
	if strings.HasSuffix(l.Key, fileSuffix) {
		return nil, nil
	}
	files, err := l.checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	var iterations []uint64
	for _, f := range files {
		if !f.best {
			iterations = append(iterations, f.iteration)
		}
	}
	if len(iterations) < len(files) {
		names = append(names, BestCheckpoint)
	}
	slices.Sort(iterations)
	for _, iteration := range slices.Compact(iterations) {
		names = append(names, strconv.FormatUint(iteration, 10))
	}
	return names, nil
}

// Open returns the checkpoint that which names, as [OpenCheckpoint] does. If workers trained several runs of that name,
// it is the last one's, and of that the latest epoch's.
func (l Location) Open(ctx context.Context, which string) (*Checkpoint, error) {
	key, single := l.Key, strings.HasSuffix(l.Key, fileSuffix)
	if single && which != "" {
		return nil, fmt.Errorf("%s is one checkpoint; choose among several by naming the run", key)
	}
	if !single {
		files, err := l.checkpoints(ctx)
		if err != nil {
			return nil, err
		}
		if key, err = choose(l.Key, files, cmp.Or(which, BestCheckpoint)); err != nil {
			return nil, err
		}
	}
	data, err := l.Store.Get(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%v has no %s", l.Store, key)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	location := strings.TrimSuffix(l.Store.String(), "/") + "/" + key
	c := &Checkpoint{Location: location, SHA256: hex.EncodeToString(sum[:])}
	if c.State, c.Settings, err = Decode(data); err != nil {
		err = fmt.Errorf("%s: %w", c.Location, err)
		if errors.Is(err, ErrCorrupt) && which != NewestCheckpoint && !single {
			err = fmt.Errorf("%w; --checkpoint newest names another", err)
		}
		return nil, err
	}
	return c, nil
}

// Directory returns the directory of a run's files: its own, or if workers trained it that of its latest epoch; of
// several runs of the name, that of the last.
func Directory(run string) (string, error) {
	var directories []string
	for _, pattern := range []string{"epoch-*", "id-*/epoch-*"} {
		some, err := filepath.Glob(filepath.Join(run, pattern))
		if err != nil {
			return "", err
		}
		directories = append(directories, some...)
	}
	last, newest := run, file{}
	for _, directory := range directories {
		rest := strings.TrimPrefix(directory, filepath.Clean(run)+string(filepath.Separator))
		if f, _ := newFile(filepath.ToSlash(rest)); f.epoch > 0 && f.compare(newest) > 0 {
			last, newest = directory, f
		}
	}
	return last, nil
}

// file is a checkpoint's file.
type file struct {
	key       string
	id, epoch uint64 // of the run, if a worker trained it
	best      bool
	iteration uint64 // unless it is the best
}

// newFile returns the file of a path relative to its run, with the rest of the path in the epoch.
func newFile(name string) (f file, rest string) {
	f.id, rest, _ = epochs.CutID(name)
	f.epoch, rest, _ = epochs.CutEpoch(rest)
	return f, rest
}

// compare orders files from the oldest to the newest.
func (f file) compare(other file) int {
	return slices.Compare([]uint64{f.id, f.epoch, f.iteration}, []uint64{other.id, other.epoch, other.iteration})
}

// checkpoints returns the checkpoints of the run, of the last of its name, in order. The error wraps ErrNone if there
// are none.
func (l Location) checkpoints(ctx context.Context) ([]file, error) {
	stored, err := l.Store.Files(ctx, l.Key)
	if err != nil {
		return nil, err
	}
	var all []file
	for _, s := range stored {
		f, rest := newFile(strings.TrimPrefix(s.Key, l.Key+"/"))
		name, ok := strings.CutPrefix(rest, CheckpointsName+"/")
		f.key, f.best = s.Key, name == BestName
		if f.iteration, _ = iterationIn(name); ok && (f.best || name == FileName(f.iteration)) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is no run: %w", l.Key, ErrNone)
	}
	slices.SortFunc(all, file.compare)
	last := all[len(all)-1].id
	return slices.DeleteFunc(all, func(f file) bool { return f.id != last }), nil
}

// choose returns the key of the newest of a run's files that which names.
func choose(run string, files []file, which string) (string, error) {
	var names []string
	number, err := strconv.ParseUint(which, 10, 64)
	for _, f := range slices.Backward(files) {
		if f.best && which == BestCheckpoint ||
			!f.best && (which == NewestCheckpoint || err == nil && f.iteration == number) {
			return f.key, nil
		}
		names = append(names, strings.TrimSuffix(path.Base(f.key), fileSuffix))
	}
	slices.Reverse(names)
	return "", fmt.Errorf("%s has no checkpoint %q: there are %s", run, which, strings.Join(names, ", "))
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

// Policy is a trained policy; policy.NewActor checks it.
type Policy struct {
	Shape      policy.Shape
	Params     []float64
	Normalizer policy.Normalizer
	Moments    policy.Moments // of which the normaliser is made
}

// Policy returns the policy in the checkpoint.
func (c *Checkpoint) Policy() (*Policy, error) {
	var recorded config.Settings
	if err := recorded.Set("clip", c.Settings["clip"]); err != nil {
		return nil, fmt.Errorf("%s: its settings: %w", c.Location, err)
	}
	arrays := c.State.Arrays
	moments := policy.Moments{Mean: arrays["normalizer.mean"], M2: arrays["normalizer.m2"]}
	if count := arrays["normalizer.count"]; len(count) == 1 {
		moments.Count = count[0]
	}
	params, sizes := arrays[policyName+paramsSuffix], c.State.Networks[policyName]
	if len(sizes) < 2 {
		return nil, fmt.Errorf("%s: there is no policy in it", c.Location)
	}
	last := len(sizes) - 1
	shape := policy.Shape{Observation: sizes[0], Hidden: sizes[1:last], Action: sizes[last]}
	if choices, discrete := arrays[choicesName]; discrete {
		shape.Action, shape.Choices = len(choices), make([]int, len(choices))
		for i, n := range choices {
			shape.Choices[i] = int(n)
		}
	}
	if shape.Validate() != nil || !slices.Equal(shape.Network().Sizes, sizes) || len(params) != shape.NumParams() ||
		len(moments.Mean) != shape.Observation || len(moments.M2) != shape.Observation {
		return nil, fmt.Errorf("%s: its policy's parameters or normaliser do not fit its network", c.Location)
	}
	return &Policy{shape, params, moments.Normalizer(recorded.Clip), moments}, nil
}

// SHA256 returns the hash of the policy, in hexadecimal. A run that was interrupted and one that was not end with the
// same, unlike the hash of the checkpoint's file, which contains how long the run took.
func (p *Policy) SHA256() string {
	hash := sha256.New()
	for _, part := range []any{p.Params, p.Normalizer.Mean, p.Normalizer.Std, p.Normalizer.Clip} {
		_ = binary.Write(hash, binary.LittleEndian, part) // a hash takes everything
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// PolicyOf returns the policy in the checkpoint if it is of that shape.
func (c *Checkpoint) PolicyOf(shape policy.Shape) (*Policy, error) {
	p, err := c.Policy()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(p.Shape.Network().Sizes, shape.Network().Sizes) || !slices.Equal(p.Shape.Choices, shape.Choices) {
		return nil, fmt.Errorf("%s: its policy has %s, but this run's has %s: choose another --env or --hidden",
			c.Location, describe(p.Shape), describe(shape))
	}
	if _, err := policy.NewActor(p.Shape, p.Params, p.Normalizer); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Location, err)
	}
	return p, nil
}

// describe names a shape's sizes.
func describe(s policy.Shape) string {
	text := fmt.Sprintf("%d observations, hidden layers %v and %d actions", s.Observation, s.Hidden, s.Action)
	if s.Choices != nil {
		text += fmt.Sprintf(" of %v choices", s.Choices)
	}
	return text
}
