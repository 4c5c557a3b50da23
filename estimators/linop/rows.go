package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Rows allocates in s, for further scores u (p × m), the rows that V would have for them,
//
//	u'P S^-1  (m × k)
//
// so that the Fisher kernel between these samples and the batch's is n times them times V'
// (sec:appendix_Fisher_mvm): U_*'G^-1 U = U_*'P (S²/n)^-1 P'U with U = P S V'. For U itself
// they are V, as closely as P S V' is U's own decomposition.
func (d *SVD) Rows(s *compute.Scope, u Operator) compute.Block {
	inner := compute.NewScope(s.Backend())
	defer inner.Release()
	inverse := make([]float64, len(d.S))
	for j, sigma := range d.S {
		inverse[j] = 1 / sigma
	}
	return Mul(s, u, Mul(inner, d.P, inner.Diagonal(inverse), false), true)
}
