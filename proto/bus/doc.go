// Package bus carries messages between a learner and its actors over NATS. It is the
// only package that knows NATS: a server that runs in the learner's process
// ([StartServer]), connections to it or to any other server ([Connect], [Server.Connect]),
// and a key-value store with compare-and-set ([Store]).
//
// A server asks nobody who they are, or has a [ServerAuth]: then connections need an [Identity], whose role decides what
// they may publish and subscribe to (access.go, and docs/security.md).
//
// Requests and replies are core NATS: delivered at most once, at once or not at all. Nothing
// is kept for a receiver that is away, so whoever asks must be ready to ask again. Only
// the store keeps anything, in memory: it is empty after its server was restarted.
package bus
