// Package raftnode replicates a [registry.State] over 1, 3 or 5 nodes with hashicorp/raft.
//
// A command is appended to the leader's log, synced to disk on a majority of the nodes and then applied to every
// node's state in the same order. So one of three nodes, or two of five, may be lost at any moment, disk included,
// without losing any command that was answered.
//
//	DATA/records    the node's name, the latest snapshot of the state, the log since then, the term and the vote
//	DATA/member     the node's name, once it has taken part in a cluster
//
// All of it has checksums, which are verified when the node starts; a node with damaged records does not start. Without
// its records beside the name it is as one with an empty directory, except that it forms no cluster.
//
// Nodes compare the SHA-256 of their states, after every 256th command: one that differs from most others, as after an
// error of its memory, stops.
//
// # Reading
//
// [Node.Read] is linearizable: it sees every command answered before it began. Before it reads, the leader applies
// everything committed in earlier terms (a barrier, once per term) and asks a majority whether it still leads (a
// round of heartbeats, no disk).
//
// # Time
//
// The leader stamps commands with its clock when it proposes them. Only how fast clocks go matters, not what they
// show: a leader goes on from the latest time that another has stamped, and its first command renews all leases for
// their full terms. What learners say contains no times, only terms.
//
// # Membership
//
// One node forms the cluster, alone; the leader adds all others ([Node.Join]) if they answer at their address as
// themselves: first without a vote, and with one once they have caught up. The first experiment is accepted once all
// peers have joined. No node is removed ([Node.Remove]) without which a majority of the others would not answer. So a
// wrong address, or a node taken out at the wrong time, cannot leave the cluster without a majority.
//
// # An empty directory
//
// Raft is safe as long as a node remembers its term, its vote and its log. A node that comes back under its name with
// an empty directory could vote a second time in a term, giving two leaders, or help to elect a leader that lacks
// commands which the node itself helped to commit. So raft never starts in an empty directory until one of two cases
// is certain.
//
// Either a cluster exists: then the node enters it as a new one. The leader removes the old node ([Node.Forget]) in a
// term T. The removal is committed by a majority of the others, which remember everything. From then on:
//
//   - any leader of a term after T has that entry (the usual argument: the majority that committed it and any majority
//     of the previous configuration, however the lost node votes, have a node in common, which votes only for a
//     candidate that has the entry), so it does not count the lost node;
//   - a leader of a term before T can commit nothing more, since any majority that it could find, the lost node
//     included, contains a node that has advanced to T;
//   - T itself has one leader, but possibly a candidate that is still waiting for votes. That is why the entering node
//     records, before raft starts, that it is in term T and has voted: it ignores everything before T, and votes only
//     after T.
//
// It then joins as any new node does. It may have the same name and address: hashicorp/raft counts votes and
// acknowledgements by these, and the node never gives any in a term up to T, the only ones that could concern its
// lost state.
//
// Or no cluster exists: then the first of the peers by name forms one. It does so once all others have said twice in
// succession that they are empty, each by the same process. Since a process in which raft has started never becomes
// empty again, no peer held anything at the moment between the two rounds: nothing was lost that any node still knows
// of. The other peers wait for the first one and enter its cluster as above. If most directories are lost, there is
// no leader to take the nodes in, and since some peer is not empty, no new cluster forms: an operator must decide
// (coordinator serve --restore).
//
// Two processes at the same time under one name and address, one of which has lost its directory, are not covered.
//
// hashicorp/raft panics when a snapshot arrives that was overtaken by log entries; see rpcFilter.
//
// Pre-vote is enabled: a node that was cut off does not depose the leader when it returns.
package raftnode
