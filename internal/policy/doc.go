// Package policy is the Gaussian policy pi(a|s) = N(a; mu(s), diag(exp(log_std))²):
// a tanh network gives the mean, and the log standard deviation does not depend
// on the state.
//
// It has two faces. [Actor] is the one that acts: a single observation on plain
// slices, a fixed order of summation, no allocation. [Gaussian] is the one that
// learns: a batch of n observations on compute blocks, and what the estimators
// and the optimisers ask of it.
package policy
