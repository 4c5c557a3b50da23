package gp

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// stateColumns bounds the number of columns kept of the state kernel's, those of largest
// variance. Some 45 exceed the noise at n = 5,000.
const stateColumns = 64

// fold is what the objective needs of a fold under one base kernel. The process is Q = B w with
// w of N(0, P^-1), where P = diag(1/c_o, ..., 1/v, ...).
type fold struct {
	gram    *mat.SymDense // B'B over all other samples, r × r
	product *mat.VecDense // B'y over them
	rows    *mat.Dense    // B at the points of the fold, m × r
	targets []float64     // y there
}

// objective is the negative objective in the logarithms of c_o, v and noise.
type objective struct {
	folds       []fold
	state       int // number of state columns
	points      int
	prior       prior
	evaluations int
	mean        []float64 // of the points' targets, at the last evaluation
	variance    []float64
}

// objective computes the products over the samples. The state columns are rotated to the
// principal axes of their products, of which the leading ones are kept.
func (v *validation) objective(base []float64) (*objective, error) {
	s := compute.NewScope(v.backend)
	defer s.Release()
	b, k := v.backend, v.data.Fisher.Cols
	kernel := v.kernel.state()
	kernel.Hyper, kernel.Scale = base, v.kernel.C1
	factor, err := kernel.Factor(s, v.scaled, nil)
	if err != nil {
		return nil, err
	}
	factor = factor.Whole()
	q := factor.Cols()
	grams, all := make([]*mat.SymDense, len(v.folds)), mat.NewSymDense(q+k+1, nil)
	for i, f := range v.folds {
		gram, part, beside := s.New(q+k+1, q+k+1), factor.RowRange(f[0], f[1]), v.beside.RowRange(f[0], f[1])
		part.Gram(gram.View(0, q, 0, q))
		part.MulTransTo(gram.View(0, q, q, q+k+1), beside)
		own := s.New(k+1, k+1)
		b.Gram(own, beside)
		compute.Copy(b, gram.View(q, q+k+1, q, q+k+1), own)
		grams[i] = mat.NewSymDense(q+k+1, compute.ToSlice(b, gram)) // of which the upper triangle is used
		all.AddSym(all, grams[i])
	}
	axes, err := principal(all.SliceSym(0, q).(*mat.SymDense), stateColumns)
	if err != nil {
		return nil, err
	}
	_, kept := axes.Dims()
	o := &objective{folds: make([]fold, len(v.folds)), state: kept, prior: v.prior}
	rows := make([]*mat.Dense, len(v.folds)) // [B, y] at each fold's points, unrotated
	for i, f := range v.folds {
		some := func(x compute.Block) compute.Block { return x.RowRange(f[0], f[1]).EveryRow(v.every) }
		beside, state := some(v.beside), factor.Rows(s, some(v.scaled))
		rows[i] = mat.NewDense(state.Rows, q+k+1, nil)
		rows[i].Slice(0, state.Rows, 0, q).(*mat.Dense).Copy(mat.NewDense(state.Rows, q, compute.ToSlice(b, state)))
		rows[i].Slice(0, state.Rows, q, q+k+1).(*mat.Dense).Copy(
			mat.NewDense(state.Rows, k+1, compute.ToSlice(b, beside)))
		o.points += state.Rows
	}
	var rotated sync.WaitGroup
	for i := range o.folds {
		rotated.Go(func() {
			grams[i].ScaleSym(-1, grams[i])
			grams[i].AddSym(grams[i], all)
			o.folds[i] = newFold(grams[i], rows[i], axes)
		})
	}
	rotated.Wait()
	return o, nil
}

// newFold rotates to the axes (q × kept) what belongs to the first q columns of [B, y]: of its Gram matrix over all
// other samples, of which the upper triangle is read, and of its rows at the fold's points.
func newFold(gram *mat.SymDense, points, axes *mat.Dense) fold {
	q, kept := axes.Dims()
	m, all := points.Dims()
	r := kept + all - q - 1
	whole, rows := mat.NewDense(r+1, r+1, nil), mat.NewDense(m, r+1, nil)
	beside := mat.DenseCopyOf(gram.SliceSym(q, all)) // products of the other columns with one another
	var state mat.Dense                              // of the state columns with one another, half rotated
	state.Mul(mat.DenseCopyOf(gram.SliceSym(0, q)), axes)
	raw := gram.RawSymmetric()
	across := mat.NewDense(q, all, raw.Data[:q*raw.Stride]).Slice(0, q, q, all) // of state columns with the others
	whole.Slice(0, kept, 0, kept).(*mat.Dense).Mul(axes.T(), &state)
	whole.Slice(0, kept, kept, r+1).(*mat.Dense).Mul(axes.T(), across)
	whole.Slice(kept, r+1, kept, r+1).(*mat.Dense).Copy(beside)
	rows.Slice(0, m, 0, kept).(*mat.Dense).Mul(points.Slice(0, m, 0, q), axes)
	rows.Slice(0, m, kept, r+1).(*mat.Dense).Copy(points.Slice(0, m, q, all))
	upper := mat.NewSymDense(r+1, whole.RawMatrix().Data)
	product := make([]float64, r)
	for j := range product {
		product[j] = upper.At(j, r)
	}
	return fold{
		gram:    upper.SliceSym(0, r).(*mat.SymDense),
		product: mat.NewVecDense(r, product),
		rows:    rows.Slice(0, m, 0, r).(*mat.Dense),
		targets: mat.Col(nil, r, rows),
	}
}

// principal returns the leading eigenvectors of a positive semidefinite matrix, as columns: at
// most so many, and none without variance.
func principal(a mat.Symmetric, most int) (*mat.Dense, error) {
	var eigen mat.EigenSym
	if !eigen.Factorize(a, true) {
		return nil, &NotFiniteError{What: "state kernel's columns", Value: mat.Trace(a)}
	}
	values := eigen.Values(nil) // increasing
	n := len(values)
	first := max(0, n-most)
	for first < n-1 && values[first] <= 1e-12*values[n-1] {
		first++
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	return mat.DenseCopyOf(vectors.Slice(0, n, first, n)), nil
}

// at returns the objective and its gradient. Of a fold, with the precision of w given the
// other samples
//
//	L = A/noise + P,  A = B'B
//
// a point with row b of B has the mean m = b'L^-1 B'y/noise and the variance s = b'L^-1 b + noise.
// In the logarithm of a variance dL is minus that variance's part of P, or -A/noise = P - L, so
// that with x = L^-1 b and c = L^-1 B'y/noise
//
//	dm = x'P c,  ds = x'P x          over the columns of c_o or v
//	dm = -x'P c, ds = s - x'P x      for the noise, over all columns
//
// and log N(y; m, s) changes by (y-m)/s dm + ((y-m)²/s - 1)/2s ds.
func (o *objective) at(x []float64) (value float64, gradient []float64) {
	o.evaluations++
	parts := make([]predicted, len(o.folds))
	var predict sync.WaitGroup
	for i, f := range o.folds {
		predict.Go(func() { parts[i] = f.predict(o.state, math.Exp(x[0]), math.Exp(x[1]), math.Exp(x[2])) })
	}
	predict.Wait()
	o.mean, o.variance = nil, nil
	gradient = make([]float64, 3)
	for _, p := range parts {
		o.mean, o.variance = append(o.mean, p.mean...), append(o.variance, p.variance...)
		value += p.value
		floats.Add(gradient, p.gradient[:])
	}
	value /= float64(o.points)
	floats.Scale(1/float64(o.points), gradient)
	penalty, slope := o.prior.penalty(x)
	floats.Add(gradient, slope)
	if value += penalty; math.IsNaN(value) {
		return math.Inf(1), gradient
	}
	return value, gradient
}

// predicted is what the others say of a fold: the moments of its points, the negative sum of the logarithms of their
// densities, +Inf if there is none, and its gradient in the logarithms of c_o, v and noise.
type predicted struct {
	mean, variance []float64
	value          float64
	gradient       [3]float64
}

// predict does so, given the number of state columns and the variances.
func (f fold) predict(state int, outputScale, fisherVariance, noise float64) (p predicted) {
	r, points := f.product.Len(), len(f.targets)
	var posterior mat.SymDense
	posterior.ScaleSym(1/noise, f.gram)
	precision := slices.Concat(slices.Repeat([]float64{1 / outputScale}, state),
		slices.Repeat([]float64{1 / fisherVariance}, r-state))
	for j, p := range precision {
		posterior.SetSym(j, j, posterior.At(j, j)+p)
	}
	factor, ok := lapack64.Potrf(posterior.RawSymmetric())
	if !ok {
		return predicted{value: math.Inf(1)}
	}
	both := mat.NewDense(r, points+1, nil) // the b and B'y/noise as columns, then the x and c
	both.Slice(0, r, 0, points).(*mat.Dense).Copy(f.rows.T())
	both.ColView(points).(*mat.VecDense).ScaleVec(1/noise, f.product)
	lapack64.Potrs(factor, both.RawMatrix())
	solved := mat.DenseCopyOf(both.T())
	weights := solved.RawRowView(points)
	var means mat.VecDense
	means.MulVec(f.rows, mat.NewVecDense(r, weights))
	pulled := make([]float64, r) // P c
	floats.MulTo(pulled, precision, weights)
	for i, y := range f.targets {
		x := solved.RawRowView(i)
		variance := floats.Dot(f.rows.RawRowView(i), x)
		var dm, ds [2]float64 // in the logarithms of c_o and v
		for part, columns := range [2][2]int{{0, state}, {state, r}} {
			of := x[columns[0]:columns[1]]
			dm[part] = floats.Dot(of, pulled[columns[0]:columns[1]])
			ds[part] = floats.Dot(of, of)
		}
		ds[0], ds[1] = ds[0]/outputScale, ds[1]/fisherVariance
		spread, residual := variance+noise, y-means.AtVec(i)
		p.mean, p.variance = append(p.mean, means.AtVec(i)), append(p.variance, spread)
		p.value += (math.Log(2*math.Pi*spread) + residual*residual/spread) / 2
		toMean, toSpread := residual/spread, (residual*residual/spread-1)/2/spread
		for part := range 2 {
			p.gradient[part] -= toMean*dm[part] + toSpread*ds[part]
		}
		p.gradient[2] -= -toMean*(dm[0]+dm[1]) + toSpread*(spread-ds[0]-ds[1])
	}
	return p
}
