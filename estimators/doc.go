// Package estimators turns a batch of n state-action pairs into a policy gradient:
// by Monte Carlo, by deep Bayesian quadrature (DBQPG), and by Bayesian quadrature
// with a correction for the estimate's own uncertainty (UAPG). It follows Akella,
// Azizzadenesheli, Ghavamzadeh, Anandkumar and Yue, "Deep Bayesian Quadrature Policy
// Optimization", AAAI 2021; the labels in brackets are that paper's equations.
//
// # The integral
//
// The policy gradient theorem writes the gradient of the expected return as an
// integral of the score u(z) = grad log pi(a|s), z = (s,a), times the action value:
//
//	grad J = E[u(z) Q(z)]                              [eqn:policy_gradient_theorem]
//
// The batch gives the scores U = [u(z_1), ..., u(z_n)] (p × n, a [linop.Scores]) and
// a target y_i for each Q(z_i): discounted returns or generalised advantages.
//
// # Monte Carlo
//
// [MonteCarlo] takes the mean of the products:
//
//	g_MC = U y / n                                     [eqn:Monte-Carlo_PG]
//
// # Bayesian quadrature
//
// [Quadrature] puts a Gaussian process prior on Q, with the kernel
//
//	k = c1 k_s(s,s') + kappa k_f(z,z'),  k_f = u(z)'G^-1 u(z')   [eqn:kernel_definitions]
//	K = c1 K_s + kappa K_f + sigma² I,  K_f = U'G^-1 U,  G = UU'/n   [eqn:kernel_equations]
//
// and conditions it on y with noise variance sigma² (package gp). The weight of the Fisher
// kernel is kappa = c2 v everywhere, with the Fisher variance v that may be learned; the
// paper has c2 alone, so v = 1. The integral is linear in Q, so that it is Gaussian as well,
// and since the scores have mean zero in every state, the state kernel drops out of it
// everywhere but in the inverse: its mean and covariance ([Estimate.Covariance]) are
//
//	g_BQ = kappa U alpha,  alpha = K^-1 y              [eq:GP_grad]
//	C    = kappa G - kappa² U K^-1 U'                  [eq:GP_grad]
//
// Without the Fisher kernel (kappa = 0) both vanish. Without the state kernel (c1 = 0)
//
//	g_BQ = kappa/(sigma² + kappa n) U y,  C = sigma² kappa/(sigma² + kappa n) G
//
// that is, Monte Carlo is Bayesian quadrature that believes the value function to be
// zero [appendix:MCPG_degenerateofBQ].
//
// # Completing a truncated kernel
//
// With G = UU'/n the Fisher kernel K_f is n times the projection on U's row space: all its
// eigenvalues are n. The solvers keep rank delta of it, n V V', and on the directions left
// out they say "noise sigma²" where the kernel says kappa n + sigma². There alpha is too
// large by that ratio: 1.7 with the noise of the authors' code at n = 15,000, 5,000 with the
// paper's 1e-4, where the gradient then has next to nothing to do with the exact one.
// [CompletedIntegral] puts the ratio right,
//
//	g = U w,  w = kappa (rho alpha + (1 - rho) V V'alpha),  rho = sigma²/(kappa n + sigma²)
//
// which is exact without the state kernel, and close with it: docs/results/integrals has
// the cosines. w is a weight for each sample, so that a trust region's surrogate has it too.
// [PlainIntegral] is the paper's kappa alpha; [DampedIntegral] is for the exact kernel, which
// has no rank but needs damping.
//
// # The baseline inside
//
// The process is a sum of a function of the state, whose prior covariance is c1 K_s, and one of the scores. The
// posterior mean of the first at the samples is b = c1 K_s alpha, and since K alpha = y, the completed gradient is
//
//	g = kappa/(sigma² + kappa n) U (y - b)
//
// whatever the rank: Bayesian quadrature is Monte Carlo with a baseline, which the process learns from the same batch
// and trusts as far as its hyperparameters say. And for the kernel of full rank the covariance is that of Monte Carlo,
// given the baseline, and what the baseline's own covariance S = c1 K_s - c1 K_s K^-1 c1 K_s adds,
//
//	C = sigma² kappa/(sigma² + kappa n) G + (kappa/(sigma² + kappa n))² U S U'
//
// So where a critic has taken out of the targets what states explain (S and b are small), the mean is Monte Carlo's,
// and all that is left of the uncertainty is G's. docs/results/best and docs/results/gradient-quality measure it.
//
// # The natural gradient
//
// The natural gradient is d = G^-1 g_BQ. Its covariance is G^-1 C G^-1, whose inverse N is
//
//	kappa N = G + kappa U (c1 K_s + sigma² I)^-1 U'    [eqn:natural_bq_covariace]
//
// ([Estimate.Precision]); N^-1 = G^-1 C G^-1 is the matrix inversion lemma.
//
// G is one matrix throughout ([Fisher]): in d, in the exact kernel, in C and in N. It is the
// empirical UU'/n, or the analytic expectation of uu' over the actions, and it has damping.
//
// # Uncertainty-aware gradients
//
// Ideally the step is along C^-1/2 g, whose covariance is the identity. Only the leading
// directions of a covariance estimated from a batch can be trusted, so C is approximated by
// its delta leading eigenpairs (nu_j, h_j) and nu_delta times the identity on the rest. Up to
// the factor nu_delta^-1/2, which the step size absorbs, that is [UAPG]:
//
//	g_UAPG = g - sum_j (1 - sqrt(nu_delta/nu_j)) h_j h_j'g     [eqn:UAPG_practical_vanilla]
//
// For the natural gradient C is the inverse of an ill-conditioned matrix, so its leading
// eigenpairs are useless. Those of N are the most confident directions, and [NaturalUAPG]
// lengthens the step along them, by at most epsilon:
//
//	d_UAPG = d + sum_j (min(sqrt(nu_j/nu_delta), eps) - 1) h_j h_j'd     [eqn:UAPG_npg]
//
// Both know their matrix up to a factor only, so kappa is left out of C and of N.
//
// # The correction of Bayesian actor-critic
//
// [UBAC] is an older way to take shorter steps where C is large, with C's largest eigenvalue
// nu_0:
//
//	g_UBAC = (I - C/nu_0) g                            [sec:appendix_BACvsDBQPG]
//
// Its covariance is not the identity: the most uncertain direction gets no step at all,
// and all directions with a variance that is small beside it get nearly a full one. It is of
// no use to the natural gradient, whose largest eigenvalues are all about the same.
//
// # Finding the eigenpairs
//
// With the rank-delta decomposition U = P S V' (package linop) both matrices are
//
//	G + w U A U' = G + w P S (V'A V) S P',  w = -kappa or kappa
//
// and the k × k matrix V'A V comes from the posterior (gp.Posterior's FisherCore and
// StateCore). [Projected] looks for the eigenvectors in the span of P, where all that matters
// of G is P'GP: for the empirical matrix that is S²/n + damping I, and what remains is a
// k × k eigenproblem without any product with G. [Randomized] is the paper's way, a
// randomised decomposition from products with the whole matrix
// [appendix:UAPG_practical_implement].
//
// With the empirical G both matrices are positive definite by construction: K is at least
// kappa n V V' + sigma² I, so that kappa V'K^-1 V is at most I/n, and C / kappa at least the
// damping.
package estimators
