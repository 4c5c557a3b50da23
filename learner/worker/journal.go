package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/failpoint"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// journal writes a run's iterations to its local directory, the store and the coordinator, in this order.
type journal struct {
	ctx       context.Context // of the training, since train.Journal has no context
	local     *runs.Run
	directory string
	commits   *commitQueue
	chain     []byte // the commits, as the store has them
	log       *runLog
	stored    map[string]string // SHA-256 of the store's files, by path in the directory
}

// Start saves and commits iteration 0.
func (j *journal) Start(state *runs.State, evaluation *runs.Evaluation) error {
	if err := j.local.Start(state, evaluation); err != nil {
		return err
	}
	return j.commit(state, nil)
}

// Commit saves and commits an iteration.
func (j *journal) Commit(state *runs.State, row runs.Row, evaluation *runs.Evaluation) error {
	failpoint.Hit("updated")
	if err := j.local.Commit(state, row, evaluation); err != nil {
		return err
	}
	all := summary(row)
	if best := state.Best; best != nil && !math.IsNaN(best.Return) && !math.IsInf(best.Return, 0) {
		all["best_return"] = best.Return
	}
	return j.commit(state, all)
}

func (j *journal) commit(state *runs.State, summary map[string]float64) error {
	failpoint.Hit("saved")
	files, hash, err := j.changed(state.Iteration)
	var events []file
	if err == nil {
		events, err = j.events()
	}
	if err != nil {
		return fmt.Errorf("read the files of the commit: %w", err)
	}
	newest := registry.Checkpoint{Iteration: state.Iteration, SHA256: hash, Location: files[len(files)-1].key}
	j.chain = appendLink(j.chain, link{newest, state.Steps})
	files = slices.Insert(files, len(files)-1, file{j.key(chainName), j.chain}, j.log.file())
	err = j.commits.add(j.ctx, registry.Commit{Checkpoint: newest, Steps: state.Steps, Summary: summary}, files, events)
	failpoint.Hit("acknowledged")
	return err
}

// changed returns the files that the store does not have yet, ending with that iteration's checkpoint, and its SHA-256.
func (j *journal) changed(iteration uint64) (files []file, hash string, err error) {
	names, err := runs.Files(j.directory)
	if err != nil {
		return nil, "", err
	}
	if newest := path.Join(runs.CheckpointsName, runs.FileName(iteration)); names[len(names)-1] != newest {
		return nil, "", fmt.Errorf("%s is not the newest checkpoint: %s", newest, names[len(names)-1])
	}
	for _, name := range names {
		if _, there := j.stored[name]; there && strings.Contains(name, "/iteration-") {
			continue // an iteration is saved once
		}
		data, err := os.ReadFile(filepath.Join(j.directory, filepath.FromSlash(name)))
		if err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(data)
		hash = hex.EncodeToString(sum[:])
		if j.stored[name] != hash {
			j.stored[name] = hash
			files = append(files, file{j.key(name), data})
		}
	}
	return files, hash, nil
}

// key returns the key of a file in the run's directory.
func (j *journal) key(name string) string {
	return path.Join(epochs.Directory(j.commits.lease.home, j.commits.lease.Epoch), name)
}

// events returns the event files, for TensorBoard, which only grow. Resuming does not need them.
func (j *journal) events() (events []file, err error) {
	files := os.DirFS(j.directory)
	for _, pattern := range runs.EventPatterns {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return nil, err
			}
			events = append(events, file{j.key(name), data})
		}
	}
	return events, nil
}

// summary returns the metrics of an iteration for the coordinator.
func summary(row runs.Row) map[string]float64 {
	all := map[string]float64{
		"return_mean": row.ReturnMean, "return_min": row.ReturnMin, "return_max": row.ReturnMax,
		"length_mean": row.LengthMean, "kl": row.KL,
		"episodes": float64(row.Episodes), "seconds_elapsed": row.SecondsElapsed,
	}
	for name, value := range all {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			delete(all, name)
		}
	}
	return all
}

// interruptible is a collector with failpoints for tests, which notes how many actors play.
type interruptible struct {
	*collect.Collector
	played func(actors int)
}

// Collect collects a batch.
func (p interruptible) Collect(ctx context.Context, order collect.Order) (*collect.Batch, error) {
	failpoint.Hit("publishing")
	batch, err := p.Collector.Collect(ctx, order)
	if err == nil {
		p.played(batch.Stats.Actors)
		failpoint.Hit("collected")
	}
	return batch, err
}

// notThere reports whether an error means that a file does not exist.
func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
