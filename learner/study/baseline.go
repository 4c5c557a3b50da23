package main

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/train"
)

// A baseline is a function b(s_t, t) that is subtracted from the returns. Fitted to other episodes, it leaves the
// expected gradient unchanged, since the score has mean 0 over the actions in any state (Williams, 1992).

// meanBaseline is the batch's mean return.
func meanBaseline(_ *train.Learner, _ train.Samples, returns []float64) ([]float64, error) {
	return slices.Repeat([]float64{stats.Mean(returns)}, len(returns)), nil
}

// ridges are the penalties that ridgeBaseline chooses from, relative to the features' variances: from next to none to
// one that leaves little but the mean.
var ridges = []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100}

// Of ridgeBaseline's folds one is predicted, one chooses the penalty, and one is fitted at least.
const folds, leastFolds = 5, 3

// ridgeBaseline is a cross-fitted ridge regression of the returns: each fold of episodes is predicted from the other
// folds, with the penalty by which these predict each other best.
func ridgeBaseline(l *train.Learner, x train.Samples, returns []float64) ([]float64, error) {
	folds := x.Trajectories().Folds(folds)
	if len(folds) < leastFolds {
		return nil, fmt.Errorf("a ridge baseline needs %d episodes, and the batch has %d: make it larger", leastFolds,
			len(folds))
	}
	rows := regression(l, x, returns)
	_, k := rows.Dims()
	moments := make([]*mat.SymDense, len(folds))
	for i, f := range folds {
		moments[i] = mat.NewSymDense(k, nil)
		moments[i].SymOuterK(1, rows.Slice(f[0], f[1], 0, k).T())
	}
	baseline := make([]float64, len(returns))
	for i, f := range folds {
		w, err := chooseRidge(without(moments, i))
		if err != nil {
			return nil, err
		}
		for row := f[0]; row < f[1]; row++ {
			baseline[row] = floats.Dot(rows.RawRowView(row)[:k-1], w)
		}
	}
	return baseline, nil
}

// regression returns a row for each step: the features 1, t, t², t³ (of t in thousands of steps), the normalised
// observation and its squares (Duan et al., 2016), and the value function's V if there is one; then the return.
func regression(l *train.Learner, x train.Samples, returns []float64) *mat.Dense {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	at := x.Observations.RowRange(0, x.Current)
	observations, values := compute.ToSlice(l.Backend, at), []float64(nil)
	if l.Values != nil {
		values = l.Values.At(s, at)
	}
	var all []float64
	row, o := 0, at.Cols
	for _, length := range x.Trajectories().Lengths {
		for step := range length {
			t, observation := float64(step)/1000, observations[row*o:(row+1)*o]
			all = append(append(all, 1, t, t*t, t*t*t), observation...)
			for _, v := range observation {
				all = append(all, v*v)
			}
			if values != nil {
				all = append(all, values[row])
			}
			all = append(all, returns[row])
			row++
		}
	}
	return mat.NewDense(row, len(all)/row, all)
}

// chooseRidge returns the weights of the regression on all folds, given their moments, with the penalty that predicts
// each of them best from the others.
func chooseRidge(folds []*mat.SymDense) ([]float64, error) {
	best, least := 0.0, math.Inf(1)
	for _, ridge := range ridges {
		sum := 0.0
		for i, fold := range folds {
			w, err := ridgeRegression(total(without(folds, i)), ridge)
			if err != nil {
				return nil, err
			}
			v := mat.NewVecDense(len(w)+1, append(w, -1))
			sum += mat.Inner(v, fold, v) // of the squares of Xw - y
		}
		if sum < least {
			best, least = ridge, sum
		}
	}
	return ridgeRegression(total(folds), best)
}

// ridgeRegression returns the k weights of the regression whose moments are [X y]'[X y], X's first column being ones,
// whose weight is not penalised. A feature that does not vary has the weight 0.
func ridgeRegression(moments *mat.SymDense, ridge float64) ([]float64, error) {
	const noVariance = 1e-12 // of a feature's mean square
	k, n := moments.SymmetricDim()-1, moments.At(0, 0)
	centred := func(i, j int) float64 { return moments.At(i, j) - moments.At(0, i)*moments.At(0, j)/n }
	varies := func(i int) bool { return !(centred(i, i) <= noVariance*moments.At(i, i)) }
	normal, w := mat.NewSymDense(k-1, nil), mat.NewVecDense(k-1, nil)
	for i := range k - 1 {
		normal.SetSym(i, i, 1)
		if !varies(i + 1) {
			continue
		}
		w.SetVec(i, centred(i+1, k))
		normal.SetSym(i, i, (1+ridge)*centred(i+1, i+1))
		for j := range i {
			if varies(j + 1) {
				normal.SetSym(i, j, centred(i+1, j+1))
			}
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(normal) || math.IsNaN(floats.Sum(w.RawVector().Data)) {
		return nil, errors.New("fit the baseline: observations or returns are not finite")
	}
	var condition mat.Condition
	if err := factor.SolveVecTo(w, w); err != nil && !errors.As(err, &condition) { // which counts the features' units
		return nil, err
	}
	intercept := moments.At(0, k)
	for i, v := range w.RawVector().Data {
		intercept -= v * moments.At(0, i+1)
	}
	return append([]float64{intercept / n}, w.RawVector().Data...), nil
}

// without returns the folds but one.
func without(folds []*mat.SymDense, i int) []*mat.SymDense {
	return slices.Delete(slices.Clone(folds), i, i+1)
}

// total returns the folds' sum.
func total(folds []*mat.SymDense) *mat.SymDense {
	sum := mat.NewSymDense(folds[0].SymmetricDim(), nil)
	for _, fold := range folds {
		sum.AddSym(sum, fold)
	}
	return sum
}
