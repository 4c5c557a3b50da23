// Package bus carries messages between a learner and its actors over NATS: connections to a server ([Connect]), and a
// key-value store with compare-and-set ([Store]). Package natsserver has the server of a learner's process.
//
// A server either authenticates nobody or has a [ServerAuth]: then connections need an [Identity], whose role decides
// their permissions (access.go and docs/security.md).
//
// Requests and replies are core NATS: delivered at most once, and immediately or not at all.
// Nothing is kept for an absent receiver, so requesters must be prepared to retry. Only
// the store keeps anything, in memory: it is empty after its server has restarted.
package bus
