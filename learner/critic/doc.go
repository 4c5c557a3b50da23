// Package critic judges states: it turns rewards into the targets that the policy
// gradient is estimated from, and learns the two functions that this takes.
//
// One tanh network o-64-48-10 gives features phi(s) to both of them: a linear value
// head, V(s) = w'phi(s) + b, from which generalised advantages are made, and the
// Gaussian process over action values, whose state kernel is a function of phi
// (paper, fig:deepRBF and appendix_implementation_details). Each batch both take one
// Adam step of their own:
//
//	value  min mean (V(s_i) - R_i)²               in features and head
//	GP     max log N(y; 0, K)/n (eqn:GP_nll)      in features, the base kernel's
//	                                          hyperparameters, c_o, v, noise
//
// The order within a batch is the authors': advantages come from the values before
// the value step; the process is fitted to them with the features after it; and the
// gradient is estimated with the features and hyperparameters after the GP step.
//
// With raw features the process sees the observations themselves ("DBQPG w/o DKL",
// sec:appendix_BACvsDBQPG): it learns hyperparameters alone, and the network is the value
// function's.
//
// # Calibration
//
// The process says how sure it is, and that can be checked: a tenth of the episodes is left
// out ([Trajectories.HeldOut]; whole episodes, because the targets of one are not independent
// of each other), the process is conditioned on the others under the kernel that all of them
// have taught it, and its prediction of a target left out,
//
//	N(E[Q(s,a)], Var[Q(s,a)] + noise)
//
// has a central interval for each probability, whose [Coverage] by the targets should be
// that probability. progress.csv has coverage_50 and coverage_90. Where they are lower, the
// critic is too sure of itself: the noise is too small for the targets' spread, as with raw
// returns at first. Few episodes say little: of 15 each time 2 are left out. It takes less
// than a hundredth of an update; with a rough base kernel, like matern12, a quarter, so that
// it is done in one iteration of ten.
//
// # Hyperparameters
//
// Hyperparameters are positive: they are softplus(raw) = log(1 + exp(raw)), and it is
// the raw numbers that Adam moves and decays.
package critic
