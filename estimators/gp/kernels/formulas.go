package kernels

import "math"

// rbf returns exp(-u²/2), u = r/l (Rasmussen and Williams 2006, eq. 4.9).
func rbf(r node, hyper []node) node {
	u := div(r, hyper[0])
	return exp(scale(-0.5, square(u)))
}

// matern12 returns exp(-u), u = r/l: the exponential kernel (eq. 4.18).
func matern12(r node, hyper []node) node {
	u := div(r, hyper[0])
	return exp(scale(-1, u))
}

// matern32 returns (1 + u) exp(-u), u = √3 r/l (eq. 4.17).
func matern32(r node, hyper []node) node {
	u := scale(math.Sqrt(3), div(r, hyper[0]))
	return mul(add(number(1), u), exp(scale(-1, u)))
}

// matern52 returns (1 + u + u²/3) exp(-u), u = √5 r/l (eq. 4.17).
func matern52(r node, hyper []node) node {
	u := scale(math.Sqrt(5), div(r, hyper[0]))
	return mul(add(number(1), u, scale(1.0/3, square(u))), exp(scale(-1, u)))
}

// rationalQuadratic returns (1 + u²/2a)^-a, u = r/l (eq. 4.19).
func rationalQuadratic(r node, hyper []node) node {
	u, a := div(r, hyper[0]), hyper[1]
	return exp(scale(-1, mul(a, log1p(div(square(u), scale(2, a))))))
}

// periodic returns exp(-2 sin²(π r/p)/l) (eq. 4.31, with l where it has l²).
func periodic(r node, hyper []node) node {
	l, p := hyper[0], hyper[1]
	return exp(scale(-2, div(square(sin(scale(math.Pi, div(r, p)))), l)))
}

// cosine returns cos(π r/p).
func cosine(r node, hyper []node) node {
	return cos(scale(math.Pi, div(r, hyper[0])))
}

// piecewisePolynomial returns max(0, 1-u)^5 (1 + 5u + 8u²), u = r/l (eq. 4.21 with D = 1,
// q = 2). The maximum is (y + |y|)/2, whose derivative exists as a node at 0 too.
func piecewisePolynomial(r node, hyper []node) node {
	u := div(r, hyper[0])
	y := add(number(1), scale(-1, u))
	inside := scale(0.5, add(y, abs(y)))
	return mul(square(square(inside)), inside, add(number(1), scale(5, u), scale(8, square(u))))
}

// linear returns the product x x' itself (eq. 4.27 with p = 1, sigma_0 = 0).
func linear(product node, _ []node) node { return scale(1, product) }
