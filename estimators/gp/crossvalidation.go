package gp

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
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

// step maximises the objective after the base kernel's hyperparameter i has been multiplied by ratio, within its
// bounds: nil if it stays as it is.
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
	v := &validation{inputs: in, scope: s, folds: c.Folds, every: (n + points - 1) / points,
		beside: s.New(n, d.Fisher.Cols+1),
		prior:  prior{k.Hyper, 1 / (drift * drift * float64(len(c.Folds)))}}
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
		return nil, fmt.Errorf("gp: the hyperparameters' likelihood on held-out samples: %w",
			cmp.Or(err, error(&NotFiniteError{What: "likelihood", Value: math.Inf(-1)})))
	}
	memo.x = nil
	at(result.X) // the best found, even if rounding stopped the line search
	penalty, _ := o.prior.penalty(result.X)
	return &Validation{
		Hyper: Hyper{
			Base: start.Base, OutputScale: math.Exp(result.X[0]), FisherVariance: math.Exp(result.X[1]),
			Noise: math.Exp(result.X[2]),
		},
		Points: v.points(), Mean: o.mean, Variance: o.variance,
		LogLikelihood: penalty - memo.value, Slope: floats.Norm(memo.gradient, math.Inf(1)), Evaluations: o.evaluations,
		objective: -memo.value - o.prior.basePenalty(start.Base),
	}, nil
}
