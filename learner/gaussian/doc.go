// Package gaussian is the Gaussian policy of package policy evaluated on a batch of
// n observations on compute blocks: its scores, Fisher matrix, likelihoods and
// divergences, which the estimators and the optimisers ask for.
package gaussian
