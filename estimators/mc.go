package estimators

import "github.com/dbqpg/dbqpg/estimators/compute"

// MonteCarlo estimates the gradient by the mean of the scores times the targets
// (eqn:Monte-Carlo_PG),
//
//	g = U y / n,  w = y / n
type MonteCarlo struct {
	// Ratios are the importance ratios r_i of samples that other policies drew, n × 1, so that w_i = r_i y_i / n. The zero
	// Block stands for ones.
	Ratios     compute.Block
	Correction Correction // such as [FisherUAPG], which needs no process; nil: none
}

// Estimate implements [Estimator]. The errors are those of the correction.
func (m MonteCarlo) Estimate(s *compute.Scope, batch *Batch) (*Estimate, error) {
	weights := s.New(batch.size(), 1)
	s.Backend().Affine(weights, 1/float64(batch.size()), batch.Targets, 0, 0)
	if m.Ratios.Rows > 0 {
		s.Backend().Mul(weights, m.Ratios, weights, 0)
	}
	e := newEstimate(s, batch, weights)
	err := e.correctBy(s, m.Correction)
	return e, err
}
