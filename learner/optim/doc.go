// Package optim turns a policy gradient into new policy parameters: [VanillaPG],
// [NPG] and [TRPO], and the [Adam] under the first two and under the critic.
//
// All three ascend: g is the gradient of the expected return. With G the policy's
// damped Fisher matrix (batched.Fisher, damping 0.1) and d = G^-1 g the natural
// gradient, found by conjugate gradients,
//
//	VanillaPG  one Adam step on g,
//	NPG        one Adam step on d,
//	TRPO       theta + s d, where s makes the quadratic model of the divergence
//	           1/2 s² d'G d equal to 0.01, halved until the surrogate objective
//	           gains a tenth of what g predicts and the divergence is within bounds.
//
// An uncertainty-aware estimate (UAPG) corrects the direction, g or d, before it is
// used (paper, eqn:UAPG_practical_vanilla and eqn:UAPG_npg). The settings are those
// of the paper's experiments (appendix_implementation_details) and of the authors'
// code where the paper is silent.
package optim
