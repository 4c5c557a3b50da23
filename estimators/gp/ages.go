package gp

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
)

// NoiseLearner is implemented by posteriors that can learn a noise for each age of the samples.
type NoiseLearner interface {
	// LearnNoise returns the noise variances of the ages that maximise the log likelihood, all
	// else being the kernel's, after as many steps of expectation maximisation from start. No
	// step lowers it. With the weights' distribution N(c, M^-1) under the noises so far,
	//
	//	sigma_a² = E |y_a - B_a w|² / n_a = (|y_a - B_a c|² + tr B_a M^-1 B_a') / n_a
	//
	// The error may be a [*cholesky.NotPositiveDefiniteError].
	LearnNoise(start []float64, steps int) ([]float64, error)
}

// aged is an age's range [lo, hi) of the samples, with its noise as a multiple of the kernel's.
type aged struct {
	lo, hi int
	noise  float64
}

// ages returns the ages' ranges. It panics unless they are the batch.
func (d Data) ages() (all []aged) {
	n := d.Targets.Rows
	if d.Ages == nil {
		return []aged{{0, n, 1}}
	}
	lo := 0
	for i, a := range d.Ages {
		if a.Samples < 1 || !(a.Noise > 0) || math.IsInf(a.Noise, 0) {
			panic(fmt.Sprintf("gp: age %d has %d samples with noise %g", i, a.Samples, a.Noise))
		}
		all = append(all, aged{lo, lo + a.Samples, a.Noise})
		lo += a.Samples
	}
	if lo != n {
		panic(fmt.Sprintf("gp: ages of %d samples in all, want %d", lo, n))
	}
	return all
}

// newGram computes the products over the batch, each age's divided by its noise as a multiple of the kernel's, given V'V.
//
// With D the diagonal matrix of these multiples, K = B B' + noise D, and
//
//	M = noise I + B'D^-1 B,  c = M^-1 B'D^-1 y,  alpha = D^-1 (y - B c)/noise
//
// so that with the products B'D^-1 B, B'D^-1 V, B'D^-1 y and V'D^-1 V all is as without ages, but for what has a row for
// each sample, alpha and the gradient in Z.
func (p *directPosterior) newGram(fisherGram *mat.SymDense) (sum gram) {
	if p.data.Ages == nil {
		return newGram(p.scope, p.state, p.data, p.fisher, fisherGram)
	}
	b := p.backend
	for i, a := range p.data.ages() {
		s := p.scope
		if i > 0 {
			s = compute.NewScope(b)
		}
		g := p.ageGram(s, a)
		if i == 0 {
			sum = g
			g.scale(b, 1/a.noise)
			continue
		}
		g.addTo(b, 1/a.noise, sum)
		s.Release()
	}
	return sum
}

// ageGram computes the products over the samples of an age in s.
func (p *directPosterior) ageGram(s *compute.Scope, a aged) gram {
	own := p.data.RowRange(a.lo, a.hi)
	return newGram(s, p.state.RowRange(a.lo, a.hi), own, p.fisher, FisherGram(p.backend, own.Fisher))
}

// scale multiplies all products.
func (g gram) scale(b compute.Backend, factor float64) {
	for _, x := range []compute.Block{g.matrix, g.fisher, g.targets} {
		compute.Scale(b, factor, x)
	}
	g.fisherGram.ScaleSym(factor, g.fisherGram)
}

// addTo scales all products and adds them to sum's.
func (g gram) addTo(b compute.Backend, factor float64, sum gram) {
	g.scale(b, factor)
	for _, pair := range [][2]compute.Block{{g.matrix, sum.matrix}, {g.fisher, sum.fisher}, {g.targets, sum.targets}} {
		compute.Axpy(b, 1, pair[0], pair[1])
	}
	sum.fisherGram.AddSym(sum.fisherGram, g.fisherGram)
}

// agedFeatures sets the gradient in the scaled features, given that in Z without ages: in rows of noisier samples, B M^-1
// of dF/dB = alpha c' - D^-1 B M^-1 is smaller.
func (p *directPosterior) agedFeatures(features compute.Block, in statekernel.Gradient) {
	for _, a := range p.data.ages() {
		s := compute.NewScope(p.backend)
		own := in
		own.X, own.V = in.X.RowRange(a.lo, a.hi), in.V.RowRange(a.lo, a.hi)
		own.M, own.N = s.New(in.M.Rows, in.M.Cols), s.New(in.N.Rows, in.N.Cols)
		p.backend.Affine(own.M, 1/a.noise, in.M, 0, 0)
		p.backend.Affine(own.N, 1/a.noise, in.N, 0, 0)
		p.state.RowRange(a.lo, a.hi).Gradient(features.RowRange(a.lo, a.hi), own)
		s.Release()
	}
}

// ageOf returns the age of the samples [lo, hi). It panics if they are of several.
func (d Data) ageOf(lo, hi int) aged {
	for _, a := range d.ages() {
		if a.lo <= lo && hi <= a.hi {
			return a
		}
	}
	panic(fmt.Sprintf("gp: samples [%d, %d) to be left out are of several ages", lo, hi))
}

// products are those of an age on the host.
type products struct {
	matrix  *mat.SymDense // B_a'B_a
	targets *mat.VecDense // B_a'y_a
	square  float64       // y_a'y_a
	samples int
}

// LearnNoise implements [NoiseLearner].
func (p *directPosterior) LearnNoise(start []float64, steps int) ([]float64, error) {
	ages, noise := p.products(), slices.Clone(start)
	if len(noise) != len(ages) {
		panic(fmt.Sprintf("gp: %d noises of %d ages", len(noise), len(ages)))
	}
	r := p.order()
	m, inverse, scaled := mat.NewSymDense(r, nil), mat.NewSymDense(r, nil), mat.NewSymDense(r, nil)
	right, c := mat.NewVecDense(r, nil), mat.NewVecDense(r, nil)
	var factor mat.Cholesky
	for range steps {
		m.Zero()
		right.Zero()
		for i := range r {
			m.SetSym(i, i, 1)
		}
		for i, a := range ages {
			scaled.ScaleSym(1/noise[i], a.matrix)
			m.AddSym(m, scaled)
			right.AddScaledVec(right, 1/noise[i], a.targets)
		}
		if !factor.Factorize(m) {
			return nil, &cholesky.NotPositiveDefiniteError{Size: r, Noise: slices.Min(noise), LargestElement: slices.Max(diagonal(m))}
		}
		if err := errors.Join(conditioned(factor.SolveVecTo(c, right)), conditioned(factor.InverseTo(inverse))); err != nil {
			return nil, err
		}
		for i, a := range ages {
			residual := a.square - 2*mat.Dot(c, a.targets) + mat.Inner(c, a.matrix, c)
			noise[i] = (max(residual, 0) + traceOf(inverse, a.matrix)) / float64(a.samples)
		}
	}
	return noise, nil
}

// products computes those of each age.
func (p *directPosterior) products() (all []products) {
	b := p.backend
	for _, a := range p.data.ages() {
		s := compute.NewScope(b)
		g, targets := p.ageGram(s, a), p.data.Targets.RowRange(a.lo, a.hi)
		all = append(all, products{
			matrix:  mat.NewSymDense(p.order(), compute.ToSlice(b, g.matrix)),
			targets: mat.NewVecDense(p.order(), compute.ToSlice(b, g.targets)),
			square:  b.Dot(targets, targets), samples: a.hi - a.lo,
		})
		s.Release()
	}
	return all
}

// conditioned ignores the warning that a matrix is badly conditioned.
func conditioned(err error) error {
	var condition mat.Condition
	if errors.As(err, &condition) {
		return nil
	}
	return err
}

func diagonal(m mat.Symmetric) (d []float64) {
	for i := range m.SymmetricDim() {
		d = append(d, m.At(i, i))
	}
	return d
}

// traceOf returns tr A B of symmetric matrices.
func traceOf(a, b *mat.SymDense) (sum float64) {
	for i := range a.SymmetricDim() {
		sum += a.At(i, i) * b.At(i, i)
		for j := range i {
			sum += 2 * a.At(j, i) * b.At(j, i)
		}
	}
	return sum
}
