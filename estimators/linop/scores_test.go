package linop_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

func linoptestNaive() compute.Backend { return computetest.Naive() }

// scoreData is what a policy's passes leave, on the host.
type scoreData struct {
	n               int
	in, out         []int
	inputs, signals [][]float64
	logStd          []float64
	actions         int
}

// drawScores makes random layers; the first is wide on one side, the last on the
// other.
func drawScores(rng *rand.Rand, n int) *scoreData {
	d := &scoreData{n: n, in: []int{7, 5, 3}, out: []int{5, 5, 4}, actions: rng.IntN(3)}
	for l := range d.in {
		d.inputs = append(d.inputs, linoptest.Normal(rng, n*d.in[l]))
		d.signals = append(d.signals, linoptest.Normal(rng, n*d.out[l]))
	}
	d.logStd = linoptest.Normal(rng, n*d.actions)
	return d
}

func (d *scoreData) build(s *compute.Scope) *linop.Scores {
	var layers []linop.ScoreLayer
	for l := range d.in {
		layers = append(layers, linop.ScoreLayer{
			Inputs:  s.FromSlice(d.n, d.in[l], d.inputs[l]),
			Signals: s.FromSlice(d.n, d.out[l], d.signals[l]),
		})
	}
	return linop.NewScores(s.Backend(), layers, s.FromSlice(d.n, d.actions, d.logStd))
}

// dense writes the scores of each sample one after another, in the order of the
// flat parameters.
func (d *scoreData) dense() *mat.Dense {
	var u *mat.Dense
	for i := range d.n {
		var column []float64
		for l := range d.in {
			signal := d.signals[l][i*d.out[l] : (i+1)*d.out[l]]
			for _, v := range signal {
				for j := range d.in[l] {
					column = append(column, v*d.inputs[l][i*d.in[l]+j])
				}
			}
			column = append(column, signal...)
		}
		column = append(column, d.logStd[i*d.actions:(i+1)*d.actions]...)
		if u == nil {
			u = mat.NewDense(len(column), d.n, nil)
		}
		u.SetCol(i, column)
	}
	return u
}

func TestScores(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator { return drawScores(rng, n).build(s) },
		Dense: func(rng *rand.Rand, n int) *mat.Dense { return drawScores(rng, n).dense() },
	})
}
