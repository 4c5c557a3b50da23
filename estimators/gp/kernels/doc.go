// Package kernels is the table of base kernels: covariances k(x, x') of two points of
// the line, from which the state kernel of the Gaussian process is built. A deep
// network maps states to features, and each feature has its own line (paper,
// fig:deepRBF; the comparison of base kernels is in
// fig:appendix_Ablation_KernelSelection_WallClock).
//
// A kernel is data: a name, the names of its hyperparameters, and one expression, in
// gorgonia.org/gorgonia, of the distance r = |x - x'| of two points. From that come its
// values, and its derivatives in every hyperparameter by automatic differentiation.
//
// # The kernels
//
// All stationary kernels are 1 at distance 0, as the scale is not part of them. With
// l the lengthscale and u = r/l,
//
//	rbf                   exp(-u²/2)
//	matern12              exp(-u)
//	matern32              (1 + √3 u) exp(-√3 u)
//	matern52              (1 + √5 u + 5u²/3) exp(-√5 u)
//	rational-quadratic    (1 + u²/2α)^-α                      also of α
//	periodic              exp(-2 sin²(π r/p)/l)               also of the period p
//	cosine                cos(π r/p)                          of the period p alone
//	piecewise-polynomial  max(0, 1-u)^5 (1 + 5u + 8u²)
//	linear                x x'                                of nothing
//
// They differ in the functions that they model (Rasmussen and Williams 2006,
// "Gaussian Processes for Machine Learning", chapter 4):
//
//   - rbf (their eq. 4.9): functions with all derivatives. The eigenvalues of its
//     matrix fall off faster than exponentially, so it has the smallest rank. The
//     paper's choice.
//   - matern12, matern32, matern52 (eq. 4.17 and 4.18 with ν = 1/2, 3/2 and 5/2):
//     functions with no, one and two derivatives. matern12 is the covariance of the
//     Ornstein-Uhlenbeck process; ν to infinity is rbf. Their eigenvalues fall off as
//     a power of their index, -2ν - 1, so that their matrices have full rank.
//   - rational-quadratic (eq. 4.19): a mixture of rbf kernels of many lengthscales; the
//     smaller α, the wider the mixture. α to infinity is rbf.
//   - periodic (eq. 4.31; MacKay 1998): functions that repeat after p. It is rbf on the
//     circle.
//   - cosine: a single wave. The kernel's own period is 2p: points p apart are
//     perfectly anticorrelated. Its matrix has rank 2.
//   - piecewise-polynomial (eq. 4.21 with D = 1 and q = 2; Wendland 1995): functions
//     with two derivatives, like matern52, but points that are l or more apart are
//     independent: the matrix is banded.
//   - linear (eq. 4.27 with p = 1 and sigma_0 = 0): straight lines through 0, for the
//     comparison. It is not stationary, and its matrix has rank 1.
//
// Names and parameters are those of gpytorch, which the paper's authors used, so that
// values can be compared. Where that differs from the book: periodic divides by l,
// where the book has l² (its l is the square of the book's); cosine has π r/p, half of
// the angle that the word period suggests; and piecewise-polynomial has the q = 2 that
// is gpytorch's default.
//
// # How a kernel is added
//
// It takes an expression in formulas.go,
//
//	// cauchy is 1/(1 + u²), u = r/l.
//	func cauchy(r node, hyper []node) node {
//		u := div(r, hyper[0])
//		return div(number(1), add(number(1), square(u)))
//	}
//
// and a line in the table in table.go:
//
//	{name: "cauchy", of: distance, value: cauchy, hyper: []string{lengthscale}},
//
// The tests also require its closed form, against which they check it.
//
// # Cost
//
// An expression is differentiated and compiled when the kernel is first used, in about
// a millisecond. From then on the 128 points of the usual grid take 0.1 to 0.2 ms, some
// fifty times what the same formulas take in plain Go. That is nothing where it is
// needed, once or twice for each step of learning, and too much for all pairs of
// thousands of samples. The functions may be called from any number of goroutines; one
// evaluates at a time.
//
// Values are exact to rounding. Where u² overflows (r/l above 1e154) derivatives are
// NaN, as is 0 times infinity.
package kernels
