package worker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/runs"
)

const (
	// chainName is the file of an epoch that has the run's commits, a [link] per line.
	chainName = "commits.jsonl"
	// markerName is a file of the store. A store without it is not the one that workers have written checkpoints to.
	markerName = "dbqpg-store.txt"
	markerText = "The checkpoints of dbqpg's workers: see docs/sweeps.md. Workers know the store by this file.\n"
)

// errMissing and errDamaged report that the store does not have the checkpoint from which a run goes on, or not as it
// was committed.
var (
	errMissing = errors.New("the checkpoint is missing")
	errDamaged = errors.New("the checkpoint is damaged")
)

// link is a commit in a run's chain.
type link struct {
	registry.Checkpoint
	Steps uint64 `json:"steps"`
}

// appendLink adds a link to the text of a chain.
func appendLink(text []byte, l link) []byte {
	line, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("worker: link %+v: %v", l, err))
	}
	return append(append(text, line...), '\n')
}

// parseChain returns the links of consecutive iterations with which a text begins. Whatever follows them, such as half
// a line, is not of the chain.
func parseChain(run string, text []byte) (chain []link) {
	for line := range bytes.Lines(text) {
		var l link
		if registry.DecodeStrictly(line, &l) != nil || homeOf(run, l.Location) == "" || !locates(l.Checkpoint) ||
			len(chain) > 0 && l.Iteration != chain[len(chain)-1].Iteration+1 {
			break
		}
		chain = append(chain, l)
	}
	return chain
}

// homeOf returns the run directory that holds a checkpoint of a run of that name, or "" if location is not a
// checkpoint's.
func homeOf(run, location string) string {
	directory := path.Dir(path.Dir(location))
	home := path.Dir(directory)
	if _, ok := epochOf(home, location); !ok || home != run && epochs.Run(home) != run ||
		location != path.Join(directory, runs.CheckpointsName, path.Base(location)) {
		return ""
	}
	return home
}

// locates reports whether a checkpoint's location is one of its iteration.
func locates(c registry.Checkpoint) bool {
	return path.Base(c.Location) == runs.FileName(c.Iteration)
}

// epochOf returns the epoch that a key in a run's home is of.
func epochOf(home, key string) (epoch uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, home+"/")
	if !ok {
		return 0, false
	}
	epoch, rest, ok = epochs.CutEpoch(rest)
	return epoch, ok && rest != ""
}

// resumption is a checkpoint from which a run may go on.
type resumption struct {
	chain     []link // up to the checkpoint
	unknown   []link // the chain's end, which the coordinator does not know
	directory string // has the newest files that go with it
	epoch     uint64 // of the directory
	data      []byte // the checkpoint
}

// checkpoint returns the one to resume from.
func (r *resumption) checkpoint() link { return r.chain[len(r.chain)-1] }

// find returns the newest intact checkpoint of a run, from the coordinator's on, or nil for a run without one. There
// are later ones if the coordinator was restored from a backup, or if a worker was killed between storing a checkpoint
// and its commit. With back, earlier ones will do.
func find(ctx context.Context, in store.Store, run *registry.Run, back bool) (*resumption, error) {
	known := cmp.Or(run.Checkpoint, run.Start)
	homes := []string{run.Home()}
	if known != nil {
		home := homeOf(run.Name, known.Location)
		if home == "" || run.Checkpoint != nil && !locates(*run.Checkpoint) {
			return nil, fmt.Errorf("%w: %q is not a location of iteration %d",
				errDamaged, known.Location, known.Iteration)
		}
		if home != homes[0] { // the run was reset
			homes = append(homes, home)
		}
	}
	var all []*resumption
	for i, home := range homes {
		found, err := chains(ctx, in, run, home, i == 0, back && run.Checkpoint != nil)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if run.Checkpoint != nil { // of an earlier build, which wrote no chains
		c := link{*run.Checkpoint, run.Steps}
		all = append(all, &resumption{chain: []link{c}, directory: path.Dir(path.Dir(c.Location))})
	}
	slices.SortStableFunc(all, func(a, b *resumption) int {
		return -cmp.Or(cmp.Compare(a.checkpoint().Iteration, b.checkpoint().Iteration), cmp.Compare(a.epoch, b.epoch))
	})
	var failed error
	for _, r := range all {
		if failed = r.get(ctx, in); failed == nil {
			return r, nil
		}
	}
	if run.Start != nil && len(all) == 0 {
		failed = fmt.Errorf("%w: %v has none of iteration %d, to which the run was reset",
			errMissing, in, run.Start.Iteration)
	}
	return nil, failed
}

// chains returns the resumptions that the chains in a home offer: the known one, later ones in the run's own home, and,
// with back, earlier ones.
func chains(ctx context.Context, in store.Store, run *registry.Run, home string, own, back bool) (
	all []*resumption, err error,
) {
	keys, err := store.List(ctx, in, home)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStore, err)
	}
	for _, key := range keys {
		epoch, ok := epochOf(home, key)
		if !ok || key != path.Join(epochs.Directory(home, epoch), chainName) {
			continue
		}
		text, err := in.Get(ctx, key)
		if notThere(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errStore, err)
		}
		chain, known := parseChain(run.Name, text), -1
		first := 0 // unknown to the coordinator
		switch {
		case run.Checkpoint != nil:
			known = slices.IndexFunc(chain, func(l link) bool { return l.Checkpoint == *run.Checkpoint })
			first = known + 1
		case run.Start != nil:
			known = slices.IndexFunc(chain, func(l link) bool { return l.Iteration == run.Start.Iteration })
			first = known
		}
		if known < 0 && (run.Checkpoint != nil || run.Start != nil) {
			continue
		}
		for i, l := range chain {
			if i == known || back && i < known || i > known && own && slices.Contains(keys, l.Location) {
				unknown := chain[min(first, i+1) : i+1]
				all = append(all, &resumption{
					chain: chain[:i+1], unknown: unknown, directory: path.Dir(key), epoch: epoch,
				})
			}
		}
	}
	return all, nil
}

// get reads the checkpoint, and verifies its hash.
func (r *resumption) get(ctx context.Context, in store.Store) error {
	c := r.checkpoint()
	data, err := in.Get(ctx, c.Location)
	if notThere(err) { // a checkpoint to keep is in each epoch's directory
		data, err = in.Get(ctx, path.Join(r.directory, runs.CheckpointsName, path.Base(c.Location)))
	}
	switch {
	case notThere(err):
		return fmt.Errorf("%w: %s in %v", errMissing, c.Location, in)
	case err != nil:
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != c.SHA256 {
		return fmt.Errorf("%w: %s in %v", errDamaged, c.Location, in)
	}
	r.data = data
	return nil
}

// fill fills a run's new directory with the checkpoint and the files beside it: the settings, the rows, the best policy
// and the iterations to keep. Files of later iterations do no harm: repeated iterations give the same results, and rows
// beyond the checkpoint are cut off.
func (r *resumption) fill(ctx context.Context, in store.Store, settings *config.Settings) error {
	if err := os.MkdirAll(runs.Checkpoints(settings.RunDir), 0o755); err != nil {
		return err
	}
	own := path.Join(runs.CheckpointsName, runs.FileName(r.checkpoint().Iteration))
	names := []string{
		runs.ProgressName, runs.EvaluationsName, runs.ShutOutName, path.Join(runs.CheckpointsName, runs.BestName),
	}
	for _, iteration := range settings.KeepCheckpoints {
		if iteration < r.checkpoint().Iteration {
			names = append(names, path.Join(runs.CheckpointsName, runs.FileName(iteration)))
		}
	}
	files := map[string][]byte{own: r.data, config.FileName: []byte(settings.YAML())}
	for _, name := range names {
		data, err := in.Get(ctx, path.Join(r.directory, name))
		if notThere(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		files[name] = data
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(settings.RunDir, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
