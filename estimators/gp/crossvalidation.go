package gp

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// CrossValidation learns the hyperparameters from the predictions of samples held out (package
// comment, "Learning from held-out samples").
type CrossValidation struct {
	// Folds are the ranges [lo, hi) of samples that are held out, one at a time: two or more,
	// which cover the batch in order. Samples whose noise is dependent, such as those of an
	// episode, belong into one fold.
	Folds [][2]int
	// Points is the number of samples that are predicted, at most; 0 means 300. They are
	// evenly spaced.
	Points int
	// Drift is the standard deviation of the prior on the logarithms of the hyperparameters, normal
	// around those to start from; 0 means 3. It weighs as much as one of the folds: samples of a
	// fold are dependent, so that a few folds say little against what earlier batches taught.
	Drift float64
	// Ratio is that of a hyperparameter of the base kernel to the next one tried; 1 tries
	// none. 0 tries steps of [LengthscaleStep] in both directions.
	Ratio float64
}

// Validation is the result of [CrossValidation.Maximize].
type Validation struct {
	Hyper
	// LogLikelihood is the mean logarithm of the predictive density of a held-out target.
	LogLikelihood float64
	// Points are the samples that were predicted, and Mean and Variance the moments of each one's
	// target, noise included, given the other folds.
	Points         []int
	Mean, Variance []float64
	// Slope is the largest derivative of the objective in the logarithms of the three
	// variances: output scale, Fisher variance and noise.
	Slope float64
	// Evaluations is the number of evaluations of the objective.
	Evaluations int

	objective float64
}

const (
	// LeastLengthscale is the smallest value of a base kernel's hyperparameter that is
	// learned: some six steps of the grid. Below, the interpolation ceases to represent the
	// kernel, and the state kernel says that samples have nothing to do with one another,
	// which is what the noise is for.
	LeastLengthscale = 0.1
	// greatestLengthscale is the largest one: wider than the features' range, it differs from
	// others by the output scale only.
	greatestLengthscale = 3
	// LengthscaleStep is the ratio of one value to the next that is tried.
	LengthscaleStep = 1.25
	// stateColumns bounds the number of columns kept of the state kernel's, those of largest
	// variance. Some 45 exceed the noise at n = 5,000.
	stateColumns = 64
	// stationary is the slope, in nats a sample, at which the variances have converged.
	stationary = 5e-4
	// wideDrift is the drift unless one is given.
	wideDrift = 3
)

// Maximize maximises the log likelihood of held-out targets, from the hyperparameters of k on.
// The three variances are found by a quasi-Newton method (BFGS) in their logarithms, under the
// prior of [CrossValidation.Drift], and those of the base kernel by steps of a quarter up or down
// for as long as the likelihood rises. The targets should be standardised.
//
// The errors are those of [Direct]'s Fit.
func (c CrossValidation) Maximize(b compute.Backend, k Kernel, d Data) (Validation, error) {
	s := compute.NewScope(b)
	defer s.Release()
	v, err := c.prepare(s, k, d)
	if err != nil {
		return Validation{}, err
	}
	ratios := []float64{LengthscaleStep, 1 / LengthscaleStep}
	if c.Ratio != 0 {
		ratios = []float64{c.Ratio}
	}
	best, first, err := v.startAndStep(k.Hyper, ratios[0])
	if err != nil {
		return Validation{}, err
	}
	try := func(i int, ratio float64) (*Validation, error) {
		if tried := first; tried != nil {
			first = nil
			return tried, nil
		}
		return v.step(best.Hyper, i, ratio)
	}
	evaluations := best.Evaluations
	for i := range k.Hyper.Base {
		for _, ratio := range ratios {
			from := best.objective
			for {
				tried, err := try(i, ratio)
				if err != nil {
					return Validation{}, err
				}
				if tried == nil {
					break
				}
				evaluations += tried.Evaluations
				if !(tried.objective > best.objective) {
					break
				}
				best = tried
			}
			if best.objective > from {
				break // upwards it rose, so that it falls downwards
			}
		}
	}
	best.Evaluations = evaluations
	return *best, nil
}

// startAndStep maximises the objective from start, and after the base kernel's first step, beside one another: a single
// one leaves a second processor idle. Both begin with the same variances, and the step is nil where there is none.
// With a distant backend both are computed in this goroutine, where the device's failure is caught ([compute.Catch]).
func (v *validation) startAndStep(start Hyper, ratio float64) (at, stepped *Validation, err error) {
	begin := func() (err error) { at, err = v.variances(start); return err }
	var beside errgroup.Group
	if v.backend.Distant() {
		err = begin()
	} else {
		beside.Go(begin)
	}
	if err == nil && len(start.Base) > 0 {
		stepped, err = v.step(start, 0, ratio)
	}
	return at, stepped, cmp.Or(beside.Wait(), err)
}

// step maximises the objective after the base kernel's hyperparameter i has been multiplied by ratio, within its bounds:
// nil if it stays as it is.
func (v *validation) step(from Hyper, i int, ratio float64) (*Validation, error) {
	next := min(max(from.Base[i]*ratio, LeastLengthscale), greatestLengthscale)
	if next == from.Base[i] {
		return nil, nil
	}
	from.Base = slices.Clone(from.Base)
	from.Base[i] = next
	return v.variances(from)
}

// validation is what the objective needs whatever the hyperparameters.
type validation struct {
	inputs
	scope  *compute.Scope
	folds  [][2]int
	every  int           // distance of the samples that are predicted
	beside compute.Block // [(c2 n)^1/2 V, y], n × (k + 1)
	prior  prior
}

// prior is the normal distribution of the hyperparameters' logarithms around those of mean.
type prior struct {
	mean   Hyper
	weight float64 // 1/(folds variance)
}

// penalty returns its negative logarithm, without the constant, for the logarithms of the
// variances, and the gradient.
func (p prior) penalty(x []float64) (value float64, gradient []float64) {
	gradient = make([]float64, len(x))
	for i, mean := range logarithms(p.mean) {
		gradient[i] = p.weight * (x[i] - mean)
		value += gradient[i] * (x[i] - mean) / 2
	}
	return value, gradient
}

// basePenalty returns that of the base kernel's hyperparameters.
func (p prior) basePenalty(base []float64) (value float64) {
	for i, x := range base {
		moved := math.Log(x / p.mean.Base[i])
		value += p.weight * moved * moved / 2
	}
	return value
}

// logarithms returns those of the variances.
func logarithms(h Hyper) []float64 {
	return []float64{math.Log(h.OutputScale), math.Log(h.FisherVariance), math.Log(h.Noise)}
}

func (c CrossValidation) prepare(s *compute.Scope, k Kernel, d Data) (*validation, error) {
	in, err := prepare(s, k, d)
	if err != nil {
		return nil, err
	}
	if err := checkFinite(s.Backend(), fisherVectors, d.Fisher); err != nil {
		return nil, err
	}
	n, end := d.Features.Rows, 0
	for _, fold := range c.Folds {
		if fold[0] != end || fold[1] <= end {
			end = -1
			break
		}
		end = fold[1]
	}
	if len(c.Folds) < 2 || end != n || c.Points < 0 || !(c.Ratio >= 0) || !(c.Drift >= 0) {
		panic(fmt.Sprintf("gp: cross-validation of %d samples in folds %v at %d points", n, c.Folds, c.Points))
	}
	points, drift := cmp.Or(c.Points, 300), cmp.Or(c.Drift, wideDrift)
	v := &validation{inputs: in, scope: s, folds: c.Folds, every: (n + points - 1) / points, beside: s.New(n, d.Fisher.Cols+1),
		prior: prior{k.Hyper, 1 / (drift * drift * float64(len(c.Folds)))}}
	in.backend.Affine(v.beside.ColRange(0, d.Fisher.Cols), math.Sqrt(k.C2*float64(n)), d.Fisher, 0, 0)
	compute.Copy(in.backend, v.beside.Col(d.Fisher.Cols), d.Targets)
	return v, nil
}

// points returns the samples that are predicted.
func (v *validation) points() (points []int) {
	for _, f := range v.folds {
		for i := f[0]; i < f[1]; i += v.every {
			points = append(points, i)
		}
	}
	return points
}

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

// variances maximises the objective for the base kernel of start, from its variances on.
func (v *validation) variances(start Hyper) (*Validation, error) {
	o, err := v.objective(start.Base)
	if err != nil {
		return nil, err
	}
	var memo struct {
		x, gradient []float64
		value       float64
	}
	at := func(x []float64) {
		if !slices.Equal(memo.x, x) {
			memo.x = slices.Clone(x)
			memo.value, memo.gradient = o.at(x)
		}
	}
	result, err := optimize.Minimize(optimize.Problem{
		Func: func(x []float64) float64 { at(x); return memo.value },
		Grad: func(gradient, x []float64) { at(x); copy(gradient, memo.gradient) },
	}, logarithms(start),
		&optimize.Settings{GradientThreshold: stationary, MajorIterations: 100}, &optimize.BFGS{})
	if result == nil || math.IsInf(result.F, 1) {
		return nil, fmt.Errorf("gp: the hyperparameters' likelihood on held-out samples: %w", cmp.Or(err, error(&NotFiniteError{What: "likelihood", Value: math.Inf(-1)})))
	}
	memo.x = nil
	at(result.X) // the best found, even if rounding stopped the line search
	penalty, _ := o.prior.penalty(result.X)
	return &Validation{
		Hyper: Hyper{
			Base: start.Base, OutputScale: math.Exp(result.X[0]), FisherVariance: math.Exp(result.X[1]), Noise: math.Exp(result.X[2]),
		},
		Points: v.points(), Mean: o.mean, Variance: o.variance,
		LogLikelihood: penalty - memo.value, Slope: floats.Norm(memo.gradient, math.Inf(1)), Evaluations: o.evaluations, objective: -memo.value - o.prior.basePenalty(start.Base),
	}, nil
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
		rows[i].Slice(0, state.Rows, q, q+k+1).(*mat.Dense).Copy(mat.NewDense(state.Rows, k+1, compute.ToSlice(b, beside)))
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
	precision := slices.Concat(slices.Repeat([]float64{1 / outputScale}, state), slices.Repeat([]float64{1 / fisherVariance}, r-state))
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
