package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/rundir"
)

// errMissing reports that the store lacks a committed checkpoint. Either it is not the store to which the checkpoint was
// written, or somebody has removed the file: the run itself may be fine.
var errMissing = errors.New("the last committed checkpoint is missing: are --checkpoints the same for all workers?")

// errDamaged reports that a checkpoint's contents are not what was committed.
var errDamaged = errors.New("the last committed checkpoint is damaged")

// fetch fills a run's new directory with the last committed checkpoint, after verifying its hash, and the files beside it.
// Without a commit there is nothing to fetch.
func fetch(ctx context.Context, from store.Store, run *registry.Run, settings *config.Settings) error {
	last := run.Checkpoint
	if last == nil {
		return nil
	}
	if _, ok := epochOf(run.Name, last.Location); !ok || path.Clean(last.Location) != last.Location || path.Base(last.Location) != checkpoint.FileName(last.Iteration) {
		return fmt.Errorf("%w: %q is not a valid location", errDamaged, last.Location)
	}
	data, err := from.Get(ctx, last.Location)
	switch {
	case notThere(err):
		return fmt.Errorf("%w: %s in %v", errMissing, last.Location, from)
	case err != nil:
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != last.SHA256 {
		return fmt.Errorf("%w: %s in %v", errDamaged, last.Location, from)
	}
	checkpoints := rundir.Checkpoints(settings.RunDir)
	if err := os.MkdirAll(checkpoints, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(checkpoints, path.Base(last.Location)), data, 0o644); err != nil {
		return err
	}
	return fetchBeside(ctx, from, last, settings)
}

// fetchBeside fetches the settings, the rows, the best policy and the iterations to keep. Some may be of uncommitted
// iterations: these give the same results when repeated, and rows beyond the checkpoint are cut off.
func fetchBeside(ctx context.Context, from store.Store, last *registry.Checkpoint, settings *config.Settings) error {
	names := append(slices.Clone(tables), path.Join(checkpointsName, checkpoint.BestName))
	for _, iteration := range settings.KeepCheckpoints {
		if iteration < last.Iteration {
			names = append(names, path.Join(checkpointsName, checkpoint.FileName(iteration)))
		}
	}
	directory := path.Dir(path.Dir(last.Location))
	for _, name := range names {
		data, err := from.Get(ctx, path.Join(directory, name))
		if notThere(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		if err := os.WriteFile(filepath.Join(settings.RunDir, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(settings.RunDir, config.FileName), []byte(settings.YAML()), 0o644)
}
