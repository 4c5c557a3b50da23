// Package api answers requests to the coordinator: as JSON over HTTP ([API.Handler]) and as a NATS
// service ([API.ServeNATS]), with the same messages, which package client defines.
//
//	POST   /v1/commands         a registry.Command; answers a registry.Response
//	GET    /v1/runs             runs; ?experiment= ?state= ?free=true ?after=INDEX ?wait=30s (long poll)
//	GET    /v1/runs/NAME        one run
//	GET    /v1/experiments      experiments, with the states of their runs
//	GET    /v1/seen             learners and actors heard of lately
//	GET    /v1/nodes            the coordinator's nodes
//	POST   /v1/nodes            joins a node, {"id":"n4","address":"host:port"}
//	POST   /v1/nodes/lost       takes that node out, which has lost its directory; answers the term up to which it must not vote
//	DELETE /v1/nodes/ID         takes a node out
//	GET    /v1/backup           all that is kept
//	GET    /healthz, /readyz    this process is there; it knows a leader
//
// Requests under /v1 are for the leader, reads too, so that they see every command answered
// before. Another node answers 307 with the leader's URL, or 503 if there is none. What is
// refused is answered 400, 404 or 409, with the code and the reason in the body.
package api
