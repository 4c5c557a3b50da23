package estimators

import "github.com/dbqpg/dbqpg/estimators/compute"

// MonteCarlo estimates the gradient by the mean of the scores times the targets
// (eqn:Monte-Carlo_PG),
//
//	g = U y / n,  w = y / n
type MonteCarlo struct {
	Correction Correction // such as [FisherUAPG], which needs no process; nil: none
}

// Estimate implements [Estimator]. The errors are those of the correction.
func (m MonteCarlo) Estimate(s *compute.Scope, batch *Batch) (*Estimate, error) {
	weights := s.New(batch.size(), 1)
	s.Backend().Affine(weights, 1/float64(batch.size()), batch.Targets, 0, 0)
	e := newEstimate(s, batch, weights)
	err := e.correctBy(s, m.Correction)
	return e, err
}
