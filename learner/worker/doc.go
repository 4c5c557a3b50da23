// Package worker trains runs from a coordinator, one after another.
//
// # How a run is trained
//
//	worker                                   coordinator
//	  | -- Take -----------------------------> |   the next free run: queued, or with an expired lease
//	  | <------------- run, epoch, checkpoint -|
//	  |  fetch the last committed checkpoint and check its SHA-256
//	  | -- Renew -----------------------------> |   three times per term, while it holds the run
//	  |  iteration t: collect, update, checkpoint (fsync, rename), into the store
//	  | -- Commit(t, SHA-256 before, SHA-256) > |   then the policy of t+1 is published, by compare-and-set
//	  |  ...
//	  | -- Finish, or Fail, or Release -------> |
//
// # Replaced workers
//
// Each Take raises the run's epoch. The epoch is part of the NATS subjects, the published policy, every request to the
// coordinator and every key of the store, so a worker that was replaced without knowing it can change nothing: nobody asks
// it for tickets, its policy loses the compare-and-set, its commits are refused, and its files in the store lie under its
// own epoch, where nobody looks. It learns of its replacement from the first of these that it tries.
//
// # When the coordinator is unavailable
//
// Commits then wait, in order, and training continues for [graceTerms] terms of the lease, or until [maxWaiting] iterations
// wait. That is longer than the lease, on purpose: nobody can take the run while the coordinator is unavailable. If only
// this worker is cut off, another one takes the run after one term, and whatever this one trains after that is lost, but
// nothing else. When the coordinator is back the commits are made, or refused if another worker has the run.
//
// # The store
//
// Each epoch has its own directory, which is a run directory (package rundir); event files are added when the epoch
// ends:
//
//	RUN/epoch-2/config.yaml
//	RUN/epoch-2/progress.csv
//	RUN/epoch-2/checkpoints/iteration-00000020.safetensors
//
// The worker trains in a temporary directory and copies changed files after each iteration, the checkpoint last. Uncommitted
// files are never read again: a worker starts with the checkpoint whose hash the coordinator has, and with the rows up to
// it. After its own first commit it removes the directories of earlier epochs.
package worker
