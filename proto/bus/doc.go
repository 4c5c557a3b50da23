// Package bus carries messages between a learner and its actors over NATS. It is the
// only package that uses NATS: a server that runs in the learner's process
// ([StartServer]), connections to it or to any other server ([Server.Connect], [Connect]),
// and a key-value store with compare-and-set ([Store]).
//
// A server either authenticates nobody or has a [ServerAuth]: then connections need an [Identity], whose role decides what
// they may publish and subscribe to (access.go and docs/security-model.md).
//
// Requests and replies are core NATS: delivered at most once, and immediately or not at all.
// Nothing is kept for an absent receiver, so requesters must be prepared to retry. Only
// the store keeps anything, in memory: it is empty after its server has restarted.
package bus
