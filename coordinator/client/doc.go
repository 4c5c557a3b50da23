// Package client speaks to the coordinator: for its command line, for learners and for actors.
//
// A [Client] is given the URL of one node or of several. It finds the one that leads by itself
// (others point to it), learns the URLs of the rest, and sends a request again, under the same
// number, until it is answered or the context is done: so each is carried out once, whichever
// nodes are lost meanwhile. What the coordinator refuses is a *[registry.Refusal], whose Code
// says why:
//
//	run, err := c.Take(ctx, registry.Take{Learner: "learner-7", TTL: 3 * time.Second})
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
