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
// Where cores are free, an iteration whose policy is evaluated is committed while the batch of the next is sampled.
//
// # Replaced workers
//
// Each Take raises the run's epoch. The epoch is part of the NATS subjects, the published policy, every request to the
// coordinator and every key of the store, so a worker that was replaced without knowing it can change nothing: nobody
// asks it for tickets, its policy loses the compare-and-set, its commits are refused, and its files in the store lie
// under its own epoch, where nobody looks. It learns of its replacement from the first of these that it tries.
//
// # When the coordinator is unavailable
//
// Commits then wait, in order, and training continues for [graceTerms] terms of the lease, or until [maxWaiting]
// iterations wait. That is longer than the lease, on purpose: nobody can take the run while the coordinator is
// unavailable. If only this worker is cut off, another one takes the run after one term, and only the iterations that
// this one trains after that are lost. When the coordinator is back the commits are made, or refused if another worker
// has the run.
//
// # The store
//
// Each epoch has its own directory, which is a run directory (package runs) with the run's commits so far:
//
//	RUN/epoch-2/config.yaml
//	RUN/epoch-2/progress.csv
//	RUN/epoch-2/commits.jsonl
//	RUN/epoch-2/checkpoints/iteration-00000020.safetensors
//	RUN/id-7/epoch-8/...
//
// The second is of a run that was reset, or that has the name of a run that was removed.
//
// The worker trains in a temporary directory and copies changed files after each iteration, the checkpoint last. The
// coordinator knows the hash of the last checkpoint; a worker starts with that one, or with the newest that follows it
// in a list of commits, and then commits what the coordinator has missed ([find]). So nothing is lost if the
// coordinator is restored from an old backup. The last three checkpoints stay, and those to keep; of earlier epochs
// everything else is removed after the first commit.
//
// # When a checkpoint is lost
//
// A worker that does not find it releases the run with the reason, and takes the next run: the coordinator counts
// losses. Only if the store has no file [markerName] either is it another store than checkpoints were written to, which
// is this worker's fault.
package worker
