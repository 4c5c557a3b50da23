// Package worker trains one run after the other that a coordinator gives out.
//
// # How a run is trained
//
//	worker                                   coordinator
//	  | -- Take -----------------------------> |   the next run that is free: queued, or its lease has expired
//	  | <------------- run, epoch, checkpoint -|
//	  |  fetch the checkpoint that was committed last, and check its SHA-256
//	  | -- Renew -----------------------------> |   three times a term, as long as the run is its own
//	  |  iteration t: collect, update, checkpoint (fsync, rename), into the store
//	  | -- Commit(t, SHA-256 before, SHA-256) > |   then the policy of t+1 is published, by compare-and-set
//	  |  ...
//	  | -- Finish, or Fail, or Release -------> |
//
// # Who is refused
//
// Each Take raises the run's epoch. The epoch stands in the subjects of NATS, in the published policy, in every request to
// the coordinator and in every key of the store, so a learner that was replaced, and does not know it, changes nothing:
// nobody asks it for tickets, its policy loses the compare-and-set, its commits are refused, and what it writes into
// the store lies under its own epoch, where nobody looks. It learns of it from the first of them that it tries.
//
// # The coordinator is away
//
// Then commits wait, in order, and training goes on: for [graceTerms] of the lease's terms, or until [maxWaiting]
// iterations wait. That is longer than the lease, on purpose. Nobody can take the run while the coordinator is away; where
// only this worker is cut off, another one takes it after one term, and what this one trains beyond that is lost, which is all
// the harm. When the coordinator is back the commits are made, and if somebody else has the run they are refused.
//
// # The store
//
// Each epoch has a directory of its own, which is a run's directory (package rundir), with event files once the epoch is
// over:
//
//	RUN/epoch-2/config.yaml
//	RUN/epoch-2/progress.csv
//	RUN/epoch-2/checkpoints/iteration-00000020.safetensors
//
// The worker trains in a temporary directory and copies what has changed after each iteration, the checkpoint last. What
// is not committed is never read again: a worker begins with the checkpoint whose hash the coordinator has, and with the
// rows up to it. Once its own first iteration is committed it removes the directories of earlier epochs.
package worker
