// Package policy is the policy pi(a|s) as actors play it, with a tanh network: the Gaussian
// N(a; mu(s), diag(exp(log_std))²), whose log standard deviation does not depend on the state,
// or for discrete actions the categorical distribution softmax(z(s)) of each component. [Actor]
// takes a single observation on plain slices, with a fixed order of summation and no allocation;
// [Normalizer] prepares the environment's observations for the network.
//
// Learners evaluate the same policy on whole batches: package batched.
package policy
