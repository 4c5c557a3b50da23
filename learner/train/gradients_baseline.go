package train

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// A baseline is a function b(s_t, t) that is subtracted from the targets of episodes other than those it was fitted to.
// Since the score has mean 0 over the actions in any state, so has the score times b: the expected gradient is
// unchanged, while the part of the targets determined by state and time no longer adds to its variance (Williams,
// 1992). The baseline here is linear in k features, x_t'w.

// baselineTime is the unit of the time feature: the tasks' time limit in steps.
const baselineTime = 1000

// baselineFeatures returns a row x_t for each step, n × k: 1, t, t^2, t^3, the normalised observation s and its
// squares (Duan et al., 2016, section 5.1, with another unit of time); and where the critic has learned features z of
// s, these and their products z_i z_j.
func (l *Learner) baselineFeatures(scope *compute.Scope, x Samples) compute.Block {
	n, o := x.Current, x.Observations.Cols
	observations, learned, d := compute.ToSlice(l.Backend, x.observations()), []float64(nil), 0
	if l.Critic != nil && l.Critic.Deep() {
		z := l.Critic.Embed(scope, x.observations()).Features()
		learned, d = compute.ToSlice(l.Backend, z), z.Cols
	}
	k := 4 + 2*o + d + d*(d+1)/2
	features := make([]float64, 0, n*k)
	row := 0
	for _, length := range x.trajectories.Lengths {
		for step := range length {
			t := float64(step) / baselineTime
			s, z := observations[row*o:(row+1)*o], learned[row*d:(row+1)*d]
			features = append(features, 1, t, t*t, t*t*t)
			features = append(append(features, s...), z...)
			for _, v := range s {
				features = append(features, v*v)
			}
			for i, v := range z {
				for _, w := range z[:i+1] {
					features = append(features, v*w)
				}
			}
			row++
		}
	}
	return scope.FromSlice(n, k, features)
}

// baselineRidge is the ridge for features of mean square 1.
const baselineRidge = 1e-5

// fitBaseline returns the ridge regression of targets y (n × 1) on features X (n × k): the w, k, with
//
//	(X'X + ridge D) w = X'y,  D = diag(X'X),
//
// which fails on numbers that are not finite.
func fitBaseline(s *compute.Scope, features, targets compute.Block) ([]float64, error) {
	b, k := s.Backend(), features.Cols
	gram, right := s.New(k, k), s.New(k, 1)
	b.Gram(gram, features)
	b.Gemm(true, false, 1, features, targets, 0, right)
	return solveRidge(mat.NewSymDense(k, compute.ToSlice(b, gram)), compute.ToSlice(b, right), baselineRidge)
}

// solveRidge returns w with (A + ridge D) w = r, D = diag(A), solved as one for D^1/2 w, which bounds the condition
// whatever the features' units. A feature that is 0 throughout has the weight 0. It overwrites A and r.
func solveRidge(normal *mat.SymDense, right []float64, ridge float64) ([]float64, error) {
	k, w := len(right), mat.NewVecDense(len(right), right)
	scale := make([]float64, k)
	for i := range scale {
		if scale[i] = math.Sqrt(normal.At(i, i)); scale[i] == 0 {
			scale[i] = 1
		}
	}
	divide := func() {
		for i, v := range scale {
			w.SetVec(i, w.AtVec(i)/v)
		}
	}
	for i := range k {
		for j := range i {
			normal.SetSym(i, j, normal.At(i, j)/(scale[i]*scale[j]))
		}
		normal.SetSym(i, i, 1+ridge)
	}
	var factor mat.Cholesky
	if !factor.Factorize(normal) {
		return nil, errors.New("fit the baseline: observations or targets are not finite")
	}
	divide()
	err := factor.SolveVecTo(w, w)
	divide()
	return right, err
}
