// Package serve runs a coordinator node: raft, the API over HTTP, and the pages of package web.
//
// The API is JSON over HTTP; package client defines the messages.
//
//	POST   /v1/commands         executes a registry.Command; answers a registry.Response
//	GET    /v1/openapi.json     describes all of these
//	POST   /v1/renewals         extends a lease; answers the run
//	POST   /v1/heartbeats       reports that a learner is alive, or that it leaves
//	GET    /v1/runs             lists runs: ?experiment= ?state= ?free=true ?after=INDEX ?wait=30 (long poll)
//	GET    /v1/runs/NAME        returns one run
//	GET    /v1/experiments      lists experiments, with the states of their runs
//	GET    /v1/seen             lists the learners heard of recently
//	GET    /v1/nodes            lists the coordinator's nodes
//	POST   /v1/nodes            adds a node, {"id":"n4","address":"host:port"}
//	POST   /v1/nodes/lost       removes a node without its directory; answers the term up to which it must not vote
//	DELETE /v1/nodes/ID         removes a node
//	GET    /v1/backup           returns the entire state
//	GET    /healthz, /readyz    report whether the process is alive, and whether it knows a leader
//
// The leader answers requests under /v1 and the pages' under /data, reads included, so that they see every command
// answered before. Other nodes forward them, or answer 503 if there is no leader.
// Refusals are answered 400, 404 or 409; every error is a client.Failure, a code and a message.
package serve
