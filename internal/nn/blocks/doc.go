// Package blocks evaluates the tanh multilayer perceptrons of package nn on compute
// blocks: their values, and their derivatives in the parameters along a direction
// (forward mode) or contracted with a signal (reverse mode).
//
// Layer l maps H_{l-1} (n × in) to H_l = tanh(H_{l-1} W_l' + b_l) (n × out), H_0
// being the inputs; the last layer has no tanh unless the network asks for one. A
// signal at the output, S (n × out), defines the scalar f = sum(S * H_L). Going
// backward, the signal at layer l before its tanh is
//
//	D_L = S (times 1 - H_L² where the last layer has a tanh)
//	D_l = (D_{l+1} W_{l+1}) * (1 - H_l²)
//
// and the derivatives of f are D_l'H_{l-1} in W_l and the sum of D_l's rows in
// b_l. Going forward, a direction (dW_l, db_l) moves the outputs by
//
//	T_l = (T_{l-1} W_l' + H_{l-1} dW_l' + db_l) * (1 - H_l²),  T_0 = 0.
//
// A [Net] is the network with its parameters; a direction and a gradient are a
// Net of the same shape over their own vector. The methods work on the rows they
// are given, so that a caller can run a whole chain of them on a panel of rows while
// these are in cache: see [compute.Backend.Panels].
package blocks
