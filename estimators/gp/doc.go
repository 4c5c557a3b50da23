// Package gp implements the Gaussian process of Bayesian quadrature: a prior over the
// action-value function whose covariance is a state kernel plus the Fisher kernel,
// conditioned on a batch of n samples. (Akella et al. 2021, "Deep Bayesian
// Quadrature Policy Optimization": labels in brackets are those of its equations.)
//
// # The kernel
//
//	k((s,a), (s',a')) = c1 k_s(s,s') + kappa k_f((s,a), (s',a')),  kappa = c2 v
//
// The paper [eqn:kernel_definitions] has v = 1; here the Fisher variance v is learned,
// and kappa ([Kernel.FisherWeight]) is the Fisher kernel's weight wherever the paper has
// c2. The Fisher kernel's matrix is K_f = U'G^-1 U, with U the p × n matrix of scores and
// G = UU'/n. With U's singular value decomposition P S V' of rank k this is
//
//	K_f = n V V'                                                   [sec:appendix_Fisher_mvm]
//
// The process uses only V, not U.
//
// The state kernel is deep: the features z (n × d), the outputs of a network outside this
// package, are scaled jointly to [-0.95, 0.95], and a one-dimensional base kernel k_l
// (package kernels) with lengthscale l is applied to each dimension:
//
//	k_s(z, z') = c_o sum_j k_l(|z_j - z'_j|)
//
// Structured kernel interpolation (Wilson and Nickisch 2015) [sec:appendix_state_mvm]
// puts a grid of 128 points under each dimension. With W_j the n × 128 matrix of
// cubic convolution weights of z's column j (four nonzeros a row) and R the grid's
// own kernel matrix, which is symmetric and Toeplitz,
//
//	K_s = c_o sum_j W_j R W_j'
//
// The following concerns the covariance of the observed targets,
//
//	K = c1 K_s + kappa n V V' + noise I
//
// where the noise is the paper's sigma².
//
// # The closed form
//
// The paper solves with K by conjugate gradients. But R is smooth: at the initial
// lengthscale, 0.69, 12 of its 128 eigenvalues exceed 1e-12 of the largest (21 at
// 0.3). With R = E D E' cut there and
// L = E (c1 c_o D)^1/2,
//
//	K = B B' + noise I,    B = [W_1 L, ..., W_d L, (kappa n)^1/2 V]
//
// has r columns, 150 to 300 of them, and the matrix inversion lemma leaves only
// the r × r matrix M = noise I + B'B to factorise:
//
//	alpha = K^-1 y  = (y - B c)/noise,  c = M^-1 B'y     (and so B'alpha = c)
//	log det K       = log det M + (n - r) log noise
//	log p(y)        = -1/2 (y'alpha + log det K + n log 2π)
//	B'K^-1 B        = I - noise M^-1
//
// The gradient of the log likelihood [eqn:GP_nll] in anything that K depends on is
// 1/2 <alpha alpha' - K^-1, dK>. In B it is
//
//	dF/dB = alpha c' - B M^-1
//
// which gives the features' gradient through the four weights of each row of W_j.
// Where dK is B times something times B', no sum over n is left: with
// A = B'(alpha alpha' - K^-1)B = cc' - I + noise M^-1,
//
//	output scale      1/(2 c_o) tr A over the state columns
//	Fisher variance   1/(2 v) tr A over the Fisher columns
//	lengthscale       1/2 sum_j <A_jj, D^-1/2 E' (dR/dl) E D^-1/2>, as others of the base kernel
//	noise             1/2 (alpha'alpha - (n - r)/noise - tr M^-1)
//
// (dR/dl outside the span of E is lost: 1e-8 of that gradient at noise 0.3, 2e-4 of it
// at noise 1e-4 and n = 15,000.)
// The uncertainty of the policy gradient needs two k × k matrices, which are blocks
// of the same products:
//
//	V'K^-1 V                    = (V'V - V'B M^-1 B'V)/noise
//	V'(c1 K_s + noise I)^-1 V   = the same without the Fisher columns of B
//
// [Direct] solves in this way. A fit takes two passes over the n × r elements of B, and a
// gradient one more. Package statekernel computes the products with the state columns of B,
// and package cholesky factorises M.
//
// # Moments
//
// Q and its two parts, V of the state kernel and A of the Fisher kernel, are Gaussian given
// the batch, at its own points and at any others ([Predictor]). In closed form the process
// is Q = B w with r weights w, N(0, I) at first and N(c, noise M^-1) given the batch. A
// point has a row b of B, made of its features and of its Fisher vector u'P S^-1, and
//
//	E[Q] = b'c                               [eqn:appendix_Q_function_posterior]
//	Var[Q] = noise b'M^-1 b = noise |R^-T b|²,  M = R'R
//
// V and A are the same with the state columns of b and with the Fisher columns alone
// [eqn:appendix_value_posterior_1, _2; eqn:appendix_adv_posterior_1, _2]. Q = V + A in the
// mean, but not in the variance: the batch observes their sum, which makes them dependent.
//
// A set h of samples can be held out afterwards, to test how well the others predict them
// ([CrossValidator]). Without their rows B_h of B,
//
//	M - B_h'B_h  and  B'y - B_h'y_h
//
// take the place of M and B'y. That costs a share h/n of a fit, and r³.
//
// A rough base kernel, such as a Matérn kernel, has a full-rank R and so up to 128 columns
// per feature. As all features are scaled together, few of them reach all of the grid. W_j
// is zero in the columns of the points not reached, and any root of the reached part of R
// suffices. If L is R's Cholesky factor that root is L's leading part,
// because R is Toeplitz, with as many columns as points: 776 in all on Swimmer's first
// batch of 10 features. ([Predictor] and
// [CrossValidator], which may be asked about other points, use all columns.)
//
// The columns W_j L are then not formed. With W = [W_1, ..., W_d], whose rows have 4 d
// nonzeros, and L now block-diagonal, the products over n are
//
//	W'W, W'V, W'y
//
// which take (4 d)² + 4 d k operations a sample. The rest is small: B'B has the block
// L'(W'W)L. In the gradient, row i of dF/dW is alpha_i L c - L M^-1 L'w_i - ..., and only
// its 4 d entries that meet a derivative of w_i are computed. At n = 15,000, d = 10 that
// is 0.4 GFLOP in place of 100.
//
// The remaining work is to factorise and invert M: r³ operations, nearly all of them in
// products of blocks on the backend.
//
// If R has a small rank and its derivative does not stay in R's range, as for the cosine
// kernel, E also has the directions in which the derivative leaves it.
//
// # Learning from held-out samples
//
// The marginal likelihood takes noise to be independent. Where samples share it, as those of an
// episode do, [CrossValidation] has hyperparameters that do not take it for knowledge: those
// that maximise the mean of
//
//	log N(y_i; m_i, s_i),  m_i = E[Q_i], s_i = Var[Q_i] + noise
//
// where the process that predicts sample i is conditioned on all samples outside of i's fold
// (Rasmussen and Williams 2006, 5.4.2). With the process Q = B w, w of N(0, P^-1) and P =
// diag(1/c_o, ..., 1/v, ...), the sums B'B and B'y over the rest are differences of sums over all
// samples and over a fold, and do not depend on c_o, v and the noise: an evaluation with its gradient
// takes a Cholesky factor for each fold, and no sum over n. The state columns are rotated to
// their principal axes, of which 64 are kept.
//
// # Inducing points
//
// Bayesian actor-critic has no grid: m of the n samples are inducing points (subset of
// regressors) [sec:appendix_BACvsDBQPG, "DBQPG w/o SKI"]
//
//	K_s ~ K_nm K_mm^-1 K_mn = Z Z',  Z = K_nm L^-T,  K_mm = L L'
//
// Direct.Inducing names the m samples, and [statekernel.ChooseInducing] chooses them. Z
// takes the place of [W_1 L, ..., W_d L] in the closed form. It costs O(m² n + m³)
// operations, whatever d and the rank of R. The gradient G in Z becomes G L^-1 in K_nm and
// -1/2 L^-T (Z'G) L^-1 in K_mm.
//
// For every base kernel to work alike, kernel values between samples stay interpolated,
// k(z, z') = sum_j w(z_j)'R w(z'_j) with the weights w of one point. So the m points span
// a part of what interpolation on the grid spans, and nearly all of it once there are as
// many of them as W L has columns. On the golden batch of Hopper (10 features, n = 400,
// noise 0.69), alpha differs from that of interpolation by, relative to its length,
//
//	                        m = 8     16     32      64    128    256
//	rbf, 120 columns         0.35   0.21  0.017    2e-5   4e-7   2e-7
//	matern12, 1280 columns   1.04   0.90   0.68    0.53   0.32   0.13
//
// # The paper's solver
//
// [Iterative] uses only products with K: with the interpolation, with R on the grid, and with
// V and V'. Conjugate gradients give K^-1 y and K^-1 V, stochastic Lanczos quadrature
// the log determinant with its standard error, and the gradient's traces come from random
// vectors, as derivatives of bilinear forms u'K v. As in the authors' code a
// preconditioner of low rank,
//
//	P = Q diag(e) Q' + noise I
//
// makes all three converge. The determinant is that of P times that of P^-1/2 K P^-1/2,
// and in the traces
//
//	tr K^-1 dK = tr P^-1 dK + tr (P^1/2 K^-1 P^1/2 - I) (P^-1/2 dK P^-1/2)
//
// everything large is in the first term, which needs no solution. Iterative is a check on
// Direct, and the solver for kernels whose products are fast but whose rank is not small.
//
// # Both ways to the Fisher kernel
//
// The paper has two approaches to K_f = U'G^-1 U [sec:appendix_Fisher_mvm]. The second,
// n V V' with k leading singular vectors, is what all the above is about. The first,
// [FisherKernel], computes each product from right to left,
//
//	K_f x = U' (G^-1 (U x))         [eqn:appendix_fisher_kernel_vector_product]
//
// a vector-Jacobian product, conjugate gradients with G, and a Jacobian-vector product,
// without any n × n matrix. Iterative solves with these products as it does with those of
// n V V'; if one of them fails, so does the solution.
//
// In the text G is the Hessian of the Kullback-Leibler divergence, the analytic Fisher
// matrix, and in the equations it is UU'/n, the empirical one. [ExactFisher.Kernel] takes
// either, or one of more samples. Both need some damping, G + lambda I. With U = P S V' and
// the empirical matrix
//
//	K_f = n V diag(s_j²/(s_j² + n lambda)) V'
//
// so that damping fades out the small singular values that a rank cuts off. One of the two
// is necessary: with neither, and with no fewer parameters than samples, K_f is n I, which
// is noise. As the rank grows and the damping falls, the two approaches converge.
//
// Products with errors of their own need care (inexact Krylov methods; Simoncini and
// Szyld 2003). A solution with G to a relative residual epsilon leaves an error in K_f x of
// at most
//
//	epsilon n c^1/2 / 2 |x|,  c the condition number of G + lambda I
//
// and the residual that conjugate gradients with K compute keeps falling, while the true
// one, relative to y, stays at up to kappa times that over the noise. The defaults ask
// for 1e-10 inside and 1e-6 outside. With Swimmer's first policy, n = 15,000 and damping
// 0.1 c is 21, and the bound 2e-10 at the noise 0.69 of the authors' code and 1e-6 at
// the paper's 1e-4.
package gp
