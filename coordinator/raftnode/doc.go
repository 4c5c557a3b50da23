// Package raftnode replicates a [registry.State] over 1, 3 or 5 nodes with hashicorp/raft.
//
// A command is appended to the leader's log, synced to disk on a majority of the nodes and
// then applied to every node's state in the same order. So one of three nodes, or two of
// five, may be lost at any moment, disk included, and every command that was answered is
// still there.
//
//	DATA/raft.db       the log, the term and the vote (BoltDB, synced at every write)
//	DATA/snapshots/    the state now and then, so that the log can be cut
//	DATA/node.json     the directory's own random name, and the founders'
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
// The first nodes form a cluster together: each begins with the same configuration. Later ones are added by the leader
// ([Node.Join]), get a snapshot, and count from then on.
//
// # A lost directory
//
// Raft is safe as long as a node remembers its term, its vote and its log. One that comes back under its name with an
// empty directory could vote a second time in a term, so that there are two leaders, or have a leader elected that lacks
// commands which it has itself helped to commit. So raft never begins in an empty directory before one of two things is sure.
//
// There is a cluster: it enters that as a node that was never there. The leader takes the old one out ([Node.Forget]), in a term T.
// That is committed by a majority of the others, who remember everything. From then on:
//
//   - whoever becomes leader in a term after T has that entry (the usual argument: of the majority that committed it and any
//     majority of the configuration before, however the lost node votes, one node is in both and votes only for who has
//     it), so it does not count the lost node;
//   - whoever leads in a term before T can commit nothing more, for one of any majority that it could find, the lost node
//     included, has gone on to T;
//   - in T itself there is one leader, and may be a candidate who waits for votes still. That is why the node that
//     enters notes, before raft begins, that it is in term T and has voted: it ignores all before T, and votes only after it.
//
// It then joins as any new node does. It may have the same name and address: votes and acknowledgements count by these in
// hashicorp/raft, and those of a term up to T, which alone could be about its lost state, it never gives.
//
// There is none: nodes with empty directories form it, when all peers are there and all say that they are empty, with
// the same random names of their directories twice in succession. As a directory that raft has begun in does not become empty
// under the same name, at the moment between the two rounds no peer held anything: nothing was lost that a node
// still knows of. Each notes the names of the directories before it begins, the founders', and tells them; one that is
// slower finds itself among them and begins too: raft has never been at work in its directory. One that has lost its
// directory since has another name now, and enters as above. If most are lost, there is no leader who could take them
// in, and as some peer is not empty, nothing is begun anew: people must say what is to be (coordinator serve --restore).
//
// Two processes at the same time under one name and address, of which one has lost its directory, are beyond this.
//
// hashicorp/raft panics when a snapshot arrives that was overtaken by log entries; see rpcFilter.
//
// Pre-vote is on: a node that was cut off and comes back does not depose the leader.
package raftnode
