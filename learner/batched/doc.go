// Package batched is the policy of package policy evaluated on a batch of n observations on
// compute blocks: its scores, Fisher matrix, likelihoods and divergences, which the
// estimators and the optimisers ask for. They follow from the actions' distribution given
// the network's outputs, gaussian or categorical, and the passes of the network.
package batched
