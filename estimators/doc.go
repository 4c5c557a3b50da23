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
// The mean of the products [MonteCarlo]:
//
//	g_MC = U y / n                                     [eqn:Monte-Carlo_PG]
//
// # Bayesian quadrature
//
// Put a Gaussian process prior on Q, with the kernel
//
//	k = c1 k_s(s,s') + c2 k_f(z,z'),  k_f = u(z)'G^-1 u(z')   [eqn:kernel_definitions]
//	K = c1 K_s + c2 K_f,  K_f = U'G^-1 U,  G = UU'/n          [eqn:kernel_equations]
//
// and condition it on y with noise variance sigma² (package gp). The integral is
// linear in Q, so that it is Gaussian as well, and since the scores have mean zero
// in every state, the state kernel drops out of it everywhere but in the inverse:
// mean [DBQPG] and covariance [Covariance] are
//
//	g_BQ = c2 U (K + sigma² I)^-1 y                    [eq:GP_grad]
//	C    = c2 G - c2² U (K + sigma² I)^-1 U'           [eq:GP_grad]
//
// Without the Fisher kernel (c2 = 0) both vanish. Without the state kernel (c1 = 0)
//
//	g_BQ = c2/(sigma² + c2 n) U y,  C = sigma² c2/(sigma² + c2 n) G
//
// that is, Monte Carlo is Bayesian quadrature that believes the value function to be
// zero [appendix:MCPG_degenerateofBQ].
//
// # The natural gradient
//
// d = G^-1 g_BQ has the covariance G^-1 C G^-1, whose inverse is, up to c2,
//
//	N = G + c2 U (c1 K_s + sigma² I)^-1 U'             [eqn:natural_bq_covariace]
//
// ([NaturalPrecision]); c2 N^-1 = G^-1 C G^-1 is the matrix inversion lemma.
//
// # Uncertainty-aware gradients
//
// Ideally C^-1/2 g, whose covariance is the identity. Only the leading directions of
// a covariance estimated from a batch can be trusted, so C is approximated by its
// delta leading eigenpairs (nu_j, h_j) and nu_delta times the identity on the rest;
// up to the factor nu_delta^-1/2, which the step size absorbs [Eigenpairs.Vanilla]:
//
//	g_UAPG = g - sum_j (1 - sqrt(nu_delta/nu_j)) h_j h_j'g     [eqn:UAPG_practical_vanilla]
//
// C is the inverse of an ill-conditioned matrix where the natural gradient is
// concerned, so there the leading eigenpairs are those of N, the most confident
// directions, and the step along them grows, by at most epsilon [Eigenpairs.Natural]:
//
//	d_UAPG = d + sum_j (min(sqrt(nu_j/nu_delta), eps) - 1) h_j h_j'd     [eqn:UAPG_npg]
//
// # The correction of Bayesian actor-critic
//
// For comparison, an older way to take shorter steps where C is large [UBAC], with C's
// largest eigenvalue nu_0:
//
//	g_UBAC = (I - C/nu_0) g                            [sec:appendix_BACvsDBQPG]
//
// Its covariance is not the identity: the most uncertain direction gets no step at all,
// and all those whose variance is small beside it nearly a full one. It is of no use to
// the natural gradient, whose largest eigenvalues are all about the same.
//
// # Finding the eigenpairs
//
// With the rank-delta decomposition U = P S V' (package linop) both matrices are
//
//	G + w U A U' = G + w P S (V'A V) S P',  w = -c2 or c2
//
// and the k × k matrix V'A V comes from the posterior (gp.Posterior's FisherCore and
// StateCore). [Uncertainty.Projected] looks for the eigenvectors in the span of P,
// where all that matters of G is P'GP: for G = UU'/n + damping I, the paper's own
// empirical Fisher matrix, that is S²/n + damping I, and what remains is a k × k
// eigenproblem without any product with G. [Uncertainty.Randomized] is the paper's
// way, a randomised decomposition from products with the whole matrix
// [appendix:UAPG_practical_implement].
//
// # How uncertain the gradient is
//
// The corrections need C and N up to a factor only, and [Covariance] and [NaturalPrecision]
// are the matrices of the paper over c2 and times c2. The covariance in the gradient's own
// units is a matrix of the same kind, with eigenpairs of its own,
//
//	c, err := Covariance(b, fisher, svd, c2, posterior)
//	c = c.Scaled(c2)
//	pairs, err := c.Projected(scope) // the directions that the batch tells least about
//	spread := c.Trace(30, rng)       // E|grad J - g_BQ|² given the batch
//
// Its G is the one that Covariance is given, damping included, which adds p c2 damping to
// the trace: where that matters let it be small. The empirical Fisher matrix is that of the
// decomposition, without the directions that this has left out.
package estimators
