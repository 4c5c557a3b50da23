package gp

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Predict implements [Predictor].
func (p *directPosterior) Predict(part Part, at Points, mean, variance compute.Block) error {
	all, err := p.whole()
	if err != nil {
		return err
	}
	return all.weights.Predict(part, at, mean, variance)
}

// whole returns the process with all columns, which points outside the batch may need.
func (p *directPosterior) whole() (*directPosterior, error) {
	if p.all == nil {
		all := p
		if state := p.state.Whole(); state != p.state {
			all = &directPosterior{basis: p.basis}
			all.state = state
			if err := all.condition(p.gram.fisherGram); err != nil {
				return nil, err
			}
		}
		p.all = all
	}
	return p.all, nil
}

// Size implements [CrossValidator].
func (p *directPosterior) Size() int { return p.state.Whole().Cols() + p.data.Fisher.Cols }

// LeaveOut implements [CrossValidator]. It does not sum over the remaining samples: it
// subtracts the sum over those left out from the sum over all.
func (p *directPosterior) LeaveOut(lo, hi int) (Predictor, error) {
	if n := p.scaled.Rows; lo < 0 || hi <= lo || hi > n {
		panic(fmt.Sprintf("gp: samples [%d, %d) of %d to be left out", lo, hi, n))
	}
	all, err := p.whole()
	if err != nil {
		return nil, err
	}
	scope := compute.NewScope(p.backend)
	defer scope.Release()
	left := p.data.RowRange(lo, hi)
	g := newGram(scope, all.state.RowRange(lo, hi), left, p.fisher, FisherGram(p.backend, left.Fisher))
	g.subtractFrom(p.backend, all.gram)
	return newWeights(&all.basis, g)
}
