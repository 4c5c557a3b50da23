// Package raftnode replicates a [registry.State] over 1, 3 or 5 nodes with hashicorp/raft.
//
// A command is appended to the leader's log, synced to disk on a majority of the nodes and
// then applied to every node's state in the same order. So one of three nodes, or two of
// five, may be lost at any moment, disk included, and every command that was answered is
// still there.
//
//	DATA/raft.db       the log, the term and the vote (BoltDB, synced at every write)
//	DATA/snapshots/    the state now and then, so that the log can be cut
//
// # Reading
//
// [Node.Read] is linearizable: it sees every command answered before it began. Before it
// reads, the leader has applied all that was committed in earlier terms (a barrier, once a
// term), and asks a majority whether it still leads (a round of heartbeats, no disk).
//
// # Time
//
// The leader stamps commands with its clock when it proposes them; the state makes that
// monotone. Nodes' clocks should agree to well below a lease: one that is ahead makes the
// leases granted by others expire early, which costs work and breaks nothing.
//
// # Membership
//
// New nodes with the same list of peers form a cluster together: each holds the same first
// configuration. Later ones are added by the leader ([Node.Join]), get a snapshot, and count
// from then on. A node that is lost with its disk must come back under another name: under
// the old one it could vote a second time in a term that it no longer remembers.
//
// hashicorp/raft panics when a snapshot arrives that was overtaken by log entries; see guard.
//
// Pre-vote is on: a node that was cut off and comes back does not depose the leader.
package raftnode
