// Package registry is what the coordinator knows and the rules by which that changes: a
// pure state machine. It reads no clock, no network and no random numbers, so every node
// that applies the same commands in the same order holds the same [State].
//
// # What is kept
//
// An [Experiment] is a [Spec], tasks x algorithms x estimators x seeds x overridden
// settings, which expands to runs in a fixed order. A [Run] is in one of these states:
//
//	          Take                  Finish
//	queued ----------> running ----------------> done
//	  ^  ^  <--------    |  |  Fail
//	  |  |    Release    |  +-------> failed
//	  |  |               | Cancel       |
//	  |  +--- Retry -- cancelled        |
//	  +------------------ Retry --------+
//
// A lease that expires changes nothing by itself: it only lets another learner [Take] the
// run. A holder that comes back before anybody did goes on as if nothing had happened.
//
// # A run that kills its learners
//
// A learner is lost to a run if another one has to take it after the lease has expired, or if
// it gives the run back for a [Release.Fault] that the run may be to blame for. After [MaxLosses] in a
// row without a commit the run has failed: or one that kills whoever takes it, because it needs
// more memory than there is, would have one learner after the other, and others would never be trained. A
// learner that is told to stop is not lost, nor is one whose lease ran out while there was no leader.
//
// # Why a replaced learner can do no harm
//
// Each Take raises the run's epoch by one and names one holder. Whatever a holder asks
// for (Renew, Commit, Finish, Fail, Release) carries its epoch, and is refused once the
// run has a higher one. So for each epoch there is one holder, and a holder that was
// replaced can never commit again, however late its requests arrive.
//
// # Commits are a chain
//
// After each iteration a learner writes a checkpoint and then commits it: iteration t, the
// SHA-256 of the checkpoint that it went on from, and that of the new one. A commit that
// does not follow the last one, in iteration and hash, is refused. What is committed is
// therefore one unbroken history, and whoever takes the run next goes on from its end.
//
// # Requests that are sent twice
//
// A client that got no answer sends its request again. A [Command] can carry a [Request] that
// names it: a client, and a number that grows with each of its requests. The last number of
// each client, and the answer to it, are part of the state, so a request that arrives again
// gets the answer that it had and changes nothing, whichever node is the leader by then. One
// that arrives after its client has gone on is refused; it is never done again.
//
// # Time
//
// A command carries the time, stamped by the leader that proposes it. The state's own time
// is the latest of all that it has seen, so it never goes back when another node, whose
// clock is behind, becomes the leader. With a new leader's first command all leases begin
// anew: while there was none, no holder could renew.
package registry
