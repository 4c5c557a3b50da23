package train

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/critic"
)

// Baselined are the discounted returns less a baseline that the batch itself gives, not standardised: the controls of
// an experiment, which no setting chooses. A row's explained variance is the baseline's.
type Baselined struct {
	Returns
	Baseline Baseline
}

// Baseline returns a value for each of n returns: [MeanBaseline] or [RidgeBaseline].
type Baseline func(l *Learner, x Samples, returns []float64) ([]float64, error)

func (r Baselined) of(u *update) ([]float64, deferred, error) {
	targets := u.x.trajectories.Returns(r.Gamma)
	baseline, err := r.Baseline(u.Learner, u.x, targets)
	if err != nil {
		return nil, nil, err
	}
	u.row.ExplainedVariance = critic.ExplainedVariance(baseline, targets)
	floats.Sub(targets, baseline)
	u.row.TargetStd = stats.StdDev(targets)
	return targets, nil, nil
}

// MeanBaseline is the batch's mean return, for all steps.
func MeanBaseline(_ *Learner, _ Samples, returns []float64) ([]float64, error) {
	baseline := make([]float64, len(returns))
	floats.AddConst(stats.Mean(returns), baseline)
	return baseline, nil
}

// ridges are the penalties that RidgeBaseline chooses from, relative to the features' variances: from next to none to
// one that leaves little but the mean.
var ridges = []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100}

// leastFolds is the number of folds that RidgeBaseline needs: one to predict, one to choose the penalty by, one to fit.
const leastFolds = 3

// RidgeBaseline is a ridge regression of returns on time and state ([Learner.baselineFeatures]), cross-fitted: the
// values of a fold of episodes are predicted from the other folds, so that no return has a part in its own baseline.
// The penalty is the one of ridges with which those other folds predict each other best. There are five folds, or as
// many as episodes, at least three.
func RidgeBaseline(l *Learner, x Samples, returns []float64) ([]float64, error) {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	folds := x.trajectories.Folds(validationFolds)
	if len(folds) < leastFolds {
		return nil, fmt.Errorf("a ridge baseline needs %d episodes, and the batch has %d: raise --batch", leastFolds,
			len(folds))
	}
	features := l.baselineFeatures(s, x)
	k := features.Cols
	joined, rows := make([]float64, 0, len(returns)*(k+1)), compute.ToSlice(l.Backend, features)
	for i, y := range returns {
		joined = append(append(joined, rows[i*k:(i+1)*k]...), y)
	}
	all := s.FromSlice(len(returns), k+1, joined)
	moments := make([]*mat.SymDense, len(folds))
	for i, f := range folds {
		gram := s.New(k+1, k+1)
		l.Backend.Gram(gram, all.RowRange(f[0], f[1]))
		moments[i] = mat.NewSymDense(k+1, compute.ToSlice(l.Backend, gram))
	}
	baseline := make([]float64, len(returns))
	for i, f := range folds {
		w, err := chooseRidge(without(moments, i))
		if err != nil {
			return nil, err
		}
		for row := f[0]; row < f[1]; row++ {
			baseline[row] = floats.Dot(rows[row*k:(row+1)*k], w)
		}
	}
	return baseline, nil
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
	if math.IsInf(least, 1) {
		return nil, errors.New("fit the baseline: returns are not finite")
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
	normal, right := mat.NewSymDense(k-1, nil), make([]float64, k-1)
	for i := range k - 1 {
		if !varies(i + 1) {
			continue
		}
		right[i] = centred(i+1, k)
		for j := i; j < k-1; j++ {
			if varies(j + 1) {
				normal.SetSym(i, j, centred(i+1, j+1))
			}
		}
	}
	slopes, err := solveRidge(normal, right, ridge)
	intercept := moments.At(0, k)
	for i, v := range slopes {
		intercept -= v * moments.At(0, i+1)
	}
	return append([]float64{intercept / n}, slopes...), err
}

// without returns the folds but one.
func without(folds []*mat.SymDense, i int) []*mat.SymDense {
	return append(append([]*mat.SymDense(nil), folds[:i]...), folds[i+1:]...)
}

// total returns the folds' sum.
func total(folds []*mat.SymDense) *mat.SymDense {
	sum := mat.NewSymDense(folds[0].SymmetricDim(), nil)
	for _, fold := range folds {
		sum.AddSym(sum, fold)
	}
	return sum
}
