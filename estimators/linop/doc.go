// Package linop represents matrices by their products with vectors, and computes
// solutions, singular vectors and determinants from these products alone.
//
// The matrices of Bayesian quadrature are large and dense, and are never formed. The
// scores U are p × n, some 29,000 × 15,000 for a humanoid; the kernel K = c1 K_s +
// kappa K_f + noise I is n × n. But U x is one weighted sum of outer products a layer,
// and K x a sparse interpolation, a small product, and a thin one:
//
//	k := linop.NewSum(b,
//		linop.NewInterp(b, z, grid, linop.NewDense(b, r)), // c1 K_s, by SKI
//		linop.NewLowRank(b, kappa*n, svd.V),               // kappa K_f = kappa n V V'
//		linop.NewScaledIdentity(b, n, noise))
//	result, err := linop.CG{}.Solve(b, k, alpha, y)        // alpha = K^-1 y
//	linop.Mul(s, u, alpha, false)                          // U alpha
//
// # Scores
//
// In a linear layer y = w h + b, the derivative d of a sample's log-probability in y gives
// the derivatives d h' in w and d in b. With the inputs of all samples in the rows of
// H (n × in) and the signals in those of D (n × out), layer l of U m for weights m
// is D'diag(m)H, and U'N for a direction N in parameter space is the sum over
// layers of rowsum((H N_w' + N_b) * D), * being the elementwise product. So one
// forward and one backward pass serve any number of products with U and U' (the
// paper's supplement, sec:appendix_Fisher_mvm, spends one pass on each).
//
// # Solving
//
// [CG] minimises the A-norm of the error over growing Krylov spaces; after i
// iterations the error has fallen by at least 2 ((sqrt(c)-1)/(sqrt(c)+1))^i for a
// condition number c, and after as many as A has different eigenvalues it is zero.
// A preconditioner near A^-1 narrows the spectrum; the Fisher matrix's large
// eigenvalues are those of U U'/n, so the top of U's decomposition makes one
// ([SVD.Preconditioner]). A block of right-hand sides is solved side by side, each
// column with its own coefficients, because a product with many columns costs less
// than many products. (The columns could also share their Krylov spaces: O'Leary 1980,
// Dubrulle 2001. On a model of the preconditioned kernels' spectra that saved no iterations
// with the noise of the authors' code, and with the paper's left 48 of 60 with ten columns,
// 35 with thirty. But the blocks lose rank where columns converge or depend on one
// another, which takes deflation; columns on their own cannot break down so.)
//
// A product may itself take a solution, as U'(G^-1(U x)) does, a product with the exact
// Fisher kernel. It can fail then, which no [Operator] can. What iterates with such a
// matrix therefore takes it as a [Multiply], and returns the error of the first product
// that failed: [CG.SolveFunc], [LogDet.Estimate].
//
// # Singular vectors
//
// The Fisher kernel needs the leading delta right singular vectors V of U, and the
// uncertainty correction P and S too. [ExactSVD] has them from the n × n matrix
// U'U. The usual randomised way (Halko, Martinsson and Tropp 2011) is
//
//	Y = U'Omega, Q = an orthonormal basis of Y, U Q = P S R', V = Q R
//
// for a random matrix Omega of delta columns or some more: Q holds nearly as much of
// U as V does if the singular values fall. A dense Omega and U Q cost 4 n p flops a
// column, 250 GFLOP for the 140 directions of a humanoid. [RandomizedSVD] has two
// cheaper sketches in their place.
//
// The first is Y. Let the part of a column of Omega in each layer be an outer
// product b a'. Then U'Omega is an elementwise product of two thin ones, (H A) *
// (D B): 2 n (in + out) flops a column in place of 2 n in out. Such columns are as
// isotropic as dense ones (E[Omega Omega'] is a multiple of I), and lose nothing
// that could be measured; nor is anything lost where a column has only 64 of a layer's
// many inputs. The basis Q then keeps the first 1.15 delta left singular
// vectors of Y, from the eigenpairs of the small matrix Y'Y = E L E': Q = Y T with T
// = E L^-1/2 is orthonormal up to rounding times the square of its condition
// number. Q itself is never needed, only products with Y, then T.
//
// The second is in place of U Q. Deal the samples out into 4 delta groups, each
// sample with a random sign: S is the sparse n × 4 delta matrix of this (Clarkson
// and Woodruff 2013). U S is one pass over the batch. As U is nearly (U Q) Q', U S
// is nearly (U Q)(Q'S), whence by least squares
//
//	U Q ~ (U S) Z (Z'Z)^-1,  Z = S'Q
//
// (two sketches from both sides; Tropp, Yurtsever, Udell and Cevher 2017). What Q
// misses of U comes in as noise, 1.15/(4-1.15) of it. Measured on 16,000 steps of
// HumanoidStandup-v2 and of Ant-v2 with a fresh policy, delta = 140 and 90, against a
// converged decomposition, means of three seeds:
//
//	                  HumanoidStandup              Ant
//	columns, basis,   cosine of the gradients
//	groups            DBQPG   natural UAPG  GFLOP  DBQPG   natural UAPG
//	2, 2, 8           0.976      0.982       35    0.992      0.982
//	2, 1.5, 6         0.974      0.981       22    0.990      0.974
//	2, 1.5, 4         0.972      0.974       19    0.989      0.966
//	1.5, 1.25, 4      0.970      0.974       15    0.989      0.970
//	1.5, 1.25, 3      0.969      0.964       13    0.989      0.962
//
// These are with all inputs in each column of Omega. On another batch of each task and of
// Humanoid-v2 (delta = 100), cosines for DBQPG and natural UAPG:
//
//	columns, basis, groups, inputs  HumanoidStandup  Humanoid      Ant           GFLOP
//	1.5, 1.25, 4, all               0.969 0.970      0.982 0.969   0.994 0.971     14
//	1.5, 1.25, 4, 64                0.969 0.971      0.981 0.970   0.994 0.971     12
//	1.5, 1.15, 4, 64                0.969 0.971      0.981 0.969   0.994 0.970     11    (used)
//	1.75, 1.15, 4, 64               0.969 0.974      0.983 0.972   0.993 0.967     12
//
// The authors' sketch, delta + 2 dense columns and U Q exact, takes 250 GFLOP. Small
// ranks get larger sketches than that, at least 120 columns, 100 and 400: Swimmer's
// scores at the end of training (delta = 30) have a slower spectrum than at its start,
// and 1.5, 1.25, 4 give cosines of 0.995 and 0.986 there; 4, 4, 16 give 0.9998 and
// 0.9997.
//
// Small batches lose less, as the rank holds more of them. Of 2,000 steps, before training and
// after 15 updates, lowest cosines to the exact decomposition's gradients: Swimmer 0.99999 and
// 0.9999 (natural UAPG), Hopper 0.9999 and 0.9991, Walker2d 0.9998 and 0.993, HalfCheetah
// 0.9998 and 0.992, Ant 0.9991 and 0.981. One core has the sketches in 30 to 40 ms and the
// exact decomposition in 1.5 s.
//
// For a symmetric operator that is not made of scores, [RandomizedEigen] projects it
// on a block Krylov space instead (Musco and Musco 2015).
//
// # Determinants
//
// log det A = tr log A, and for a vector w of random signs w'(log A)w has that
// mean. Lanczos' method from w builds the Gauss quadrature of w's spectral measure,
// exact for polynomials up to twice its steps, and so of its logarithm to high
// accuracy (Ubaru, Chen and Saad 2017). The spread over several w gives [LogDet]
// its standard error, beside which the quadrature's own error ends up small: the steps go
// on until what one of them changes is 1 % of it.
//
// # References
//
//   - K. Clarkson and D. Woodruff. Low rank approximation and regression in input
//     sparsity time. STOC 2013.
//   - A. Dubrulle. Retooling the method of block conjugate gradients. Electron. Trans.
//     Numer. Anal. 12, 2001.
//   - N. Halko, P. Martinsson and J. Tropp. Finding structure with randomness:
//     probabilistic algorithms for constructing approximate matrix decompositions.
//     SIAM Review 53, 2011.
//   - M. Hestenes and E. Stiefel. Methods of conjugate gradients for solving linear
//     systems. J. Res. Nat. Bur. Standards 49, 1952.
//   - R. Keys. Cubic convolution interpolation for digital image processing. IEEE
//     Trans. Acoustics, Speech, and Signal Processing 29, 1981.
//   - C. Musco and C. Musco. Randomized block Krylov methods for stronger and faster
//     approximate singular value decomposition. NIPS 2015.
//   - D. O'Leary. The block conjugate gradient algorithm and related methods. Linear
//     Algebra and its Applications 29, 1980.
//   - J. Tropp, A. Yurtsever, M. Udell and V. Cevher. Practical sketching algorithms
//     for low-rank matrix approximation. SIAM J. Matrix Anal. Appl. 38, 2017.
//   - S. Ubaru, J. Chen and Y. Saad. Fast estimation of tr(f(A)) via stochastic
//     Lanczos quadrature. SIAM J. Matrix Anal. Appl. 38, 2017.
//   - A. Wilson and H. Nickisch. Kernel interpolation for scalable structured
//     Gaussian processes (KISS-GP). ICML 2015.
package linop
