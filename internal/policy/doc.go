// Package policy is the Gaussian policy pi(a|s) = N(a; mu(s), diag(exp(log_std))²)
// as actors play it: a tanh network gives the mean, and the log standard deviation
// does not depend on the state. [Actor] takes a single observation on plain slices,
// with a fixed order of summation and no allocation; [Normalizer] prepares the
// environment's observations for the network.
//
// Learners evaluate the same policy on whole batches: package gaussian.
package policy
