// Package api answers requests to the coordinator, as JSON over HTTP. Package client defines the messages.
//
//	POST   /v1/commands         a registry.Command; answers a registry.Response
//	GET    /v1/openapi.json     the description of all of these
//	POST   /v1/renewals         extends a lease; answers the run
//	POST   /v1/heartbeats       reports that a learner is alive, or that it leaves
//	GET    /v1/runs             runs; ?experiment= ?state= ?free=true ?after=INDEX ?wait=30 (long poll) ?limit= ?page=
//	GET    /v1/runs/NAME        one run
//	GET    /v1/experiments      experiments, with the states of their runs; ?limit= ?page=
//	GET    /v1/seen             learners heard of recently
//	GET    /v1/nodes            the coordinator's nodes
//	POST   /v1/nodes            adds a node, {"id":"n4","address":"host:port"}
//	POST   /v1/nodes/lost       removes a node that has lost its directory; answers the term up to which it must not vote
//	DELETE /v1/nodes/ID         removes a node
//	GET    /v1/backup           the entire state
//	GET    /healthz, /readyz    whether the process is alive; whether it knows a leader
//
// Requests under /v1 are for the leader, including reads, so that they see every command
// answered before. Other nodes answer 307 with the leader's URL, or 503 if there is none.
// Refusals are answered 400, 404 or 409; all errors have the shape of client.Failure, a code and the reason.
package api
