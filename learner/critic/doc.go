// Package critic evaluates states: it turns rewards into the targets from which the policy
// gradient is estimated, and learns the two functions that this requires.
//
// A tanh network o-64-48-10 provides the features phi(s) of both: a linear value head,
// V(s) = w'phi(s) + b, used for generalised advantages, and the Gaussian process over
// action values, whose state kernel is a function of phi (paper, fig:deepRBF and
// appendix_implementation_details). With each batch both take one Adam step of their own:
//
//	value  min mean (V(s_i) - R_i)²               in features and head
//	GP     max log N(y; 0, K)/n (eqn:GP_nll)      in features, the base kernel's
//	                                          hyperparameters, c_o, v, noise
//
// A [ValueFunction] takes the value head's place where values are to be learned for real: it has a network of its own,
// standardised targets and as many passes over a batch as lower its error on the next.
//
// The order within a batch is the authors': advantages come from the values before
// the value step; the process is fitted to them with the features after it; and the
// gradient is estimated with the features and hyperparameters after the GP step.
//
// With raw features the process sees the observations themselves ("DBQPG w/o DKL",
// sec:appendix_BACvsDBQPG): it learns only hyperparameters, and the network serves only
// the value function.
//
// # Calibration
//
// The process states its uncertainty, which can be checked: a tenth of the episodes is held
// out ([Trajectories.HeldOut]; whole episodes, because the targets within one are not
// independent), the process is conditioned on the others, with the kernel learned from all
// of them, and the predictive distribution of a held-out target,
//
//	N(E[Q(s,a)], Var[Q(s,a)] + noise)
//
// has a central interval for each probability, and the fraction of targets inside it
// ([Coverage]) should equal that probability. progress.csv has coverage_50 and coverage_90.
// If they are lower, the critic is overconfident: the noise is too small for the targets'
// spread, as with raw returns at first. Few episodes give a rough estimate: of 15, 2 are held
// out each time. The check takes less than a hundredth of an update; with a rough base kernel
// such as matern12 it would take a quarter, so it is done only every tenth iteration.
//
// # Hyperparameters
//
// [Critic.StepProcess] is the authors' way to learn the process; the other, from predictions of
// held-out episodes, is docs/kernels.md ([Critic.TryFeatures], [Critic.SetHyper]).
//
// Hyperparameters are positive: they are softplus(raw) = log(1 + exp(raw)), and Adam's
// steps and weight decay apply to the raw numbers.
package critic
