// Package registry contains the coordinator's state and the rules by which it changes: a pure state machine. It uses
// no clock, no network and no random numbers, so all nodes that apply the same commands in the same order have the
// same [State].
//
// # The state
//
// An [Experiment] is a [Spec], tasks x algorithms x estimators x seeds x overridden settings, which expands to runs
// in a fixed order. A [Run] is in one of these states:
//
//	        Take              End{Done}
//	queued -------> running ------------> done
//	  ^  ^ <-------   |  |   End{Failed}
//	  |  | End{Queued}|  +--------------> failed
//	  |  |            | Cancel              |
//	  |  +-- Retry -- cancelled             |
//	  +-------------- Retry ----------------+
//
// [Steer] also pauses, resumes, extends and prioritizes runs. [Reset] queues a run from any state, and makes it begin
// anew.
//
// The expiry of a lease changes nothing by itself: it only lets another learner [Take] the run. If the holder returns
// before that, it continues as if nothing had happened.
//
// # A run that kills its learners
//
// A run has lost a learner if another one takes it after the lease has expired, or if the learner returns the run
// with a reason that the run may have caused ([End]). After [MaxLosses] in a row without a commit the run fails.
// Otherwise a run that kills its learners, for instance because it needs more memory than they have, would occupy one
// learner after another, and other runs would never be trained. A learner that is stopped is not lost, nor is one
// whose lease expired while there was no leader.
//
// # Why a replaced learner can do no harm
//
// Each Take raises the run's epoch by one and names one holder. Every request of a holder carries its epoch ([Hold]),
// and is refused once the run has a higher one. So each epoch has one holder, and a holder that was replaced can
// never commit again, however late its requests arrive. No name has an epoch twice: a run whose name was used before,
// by a run that is removed, goes on from that one's epochs, and after a restore all runs go on above any epoch that
// they may have had ([State.Epochs]).
//
// # Commits are a chain
//
// After each iteration a learner writes a checkpoint and then commits it: iteration t, the SHA-256 of the preceding
// checkpoint, and that of the new one. A commit that does not follow the last one, in iteration and hash, is refused.
// The commits therefore form one unbroken history, and the next learner to take the run resumes from its end.
//
// # Requests that are sent twice
//
// A client that got no answer sends its request again. A [Command] can carry a [Request] that identifies it: a
// client, and a number that grows with each of its requests. Each client's last number and the answer to it are part
// of the state, so a request that arrives again gets the same answer and changes nothing, whichever node is the
// leader by then. One that arrives after its client has sent a later request is refused and never repeated, and so is
// another request under the same number. A node derives the name from the client's own and the sender's identity: nobody
// can use up another's numbers.
//
// # Versions
//
// Commands in the log and snapshots have one version number, [Version]. A node stops at a command of another version
// and refuses a snapshot of another, since it could come to another state than the other nodes.
//
// # Time
//
// A command carries the time, stamped by the leader that proposes it. The state's own time is the latest it has seen,
// so it never goes back when another node, whose clock is behind, becomes the leader: that one goes on from there. A
// new leader's first command renews all leases: while there was no leader, no holder could.
package registry
