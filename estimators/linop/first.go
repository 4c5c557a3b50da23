package linop

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// First is U restricted to its first n samples, a view.
func (u *Scores) First(n int) *Scores { return u.rows(u.b, 0, n) }

// First returns the decomposition of the first n samples' scores, where d is that of more
// scores U = P S V', m samples of them: U_n = P S V_n' for the first n rows V_n of V. It
// stands for G = UU'/m, the Fisher matrix that all m samples give, in all that is made of
// a decomposition of n samples. With (n/m)^1/2 S for S and (m/n)^1/2 V_n for V the product
// P S V' is still U_n, and
//
//	P S² P'/n = G,  n V V' = m V_n V_n' = U_n'P (S²/m)^-1 P'U_n = U_n'G^-1 U_n
//
// so that it is the Fisher kernel's factor too (sec:appendix_Fisher_mvm). V's columns are
// not orthonormal any more. What it adds to d's blocks belongs to s; with n = m it is d.
func (d *SVD) First(s *compute.Scope, n int) *SVD {
	m := d.V.Rows
	if n == m {
		return d
	}
	ratio := math.Sqrt(float64(n) / float64(m))
	first := &SVD{P: d.P, S: make([]float64, len(d.S)), V: s.New(n, d.V.Cols)}
	for j, sigma := range d.S {
		first.S[j] = ratio * sigma
	}
	s.Backend().Affine(first.V, 1/ratio, d.V.RowRange(0, n), 0, 0)
	return first
}
