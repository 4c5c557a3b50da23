// Package client makes requests to the coordinator, for its command line and for learners.
//
// A [Client] is given the URLs of one or more nodes, any of which has the leader answer. It learns the URLs of the
// rest, and repeats a request, under the same number, until it is answered or
// the context is done: so each is executed once, whichever nodes are lost meanwhile. A refusal by the coordinator is a
// *[registry.Refusal], whose Code says why:
//
//	run, err := c.Take(ctx, registry.Take{Learner: "learner-7", TTL: 3})
//	if errors.Is(err, client.NothingNow) {
//		// ask again later, or wait with Runs(ctx, client.Query{Free: true, Wait: ...})
//	}
//	hold := registry.Hold{Run: run.Name, Epoch: run.Epoch}
//	...
//	run, err = c.Commit(ctx, registry.Commit{Hold: hold, Previous: ..., Checkpoint: ...})
//	if errors.Is(err, client.StaleEpoch) {
//		// another learner has the run: stop
//	}
package client
