package study

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/streams"
)

// cell is what an estimator's gradients from batches of one size are like, at one iteration.
type cell struct {
	iteration uint64
	size      uint
	steps     float64 // mean of the batches' samples
	estimator variant
	accuracy  stats.Estimate // mean cosine to the reference
	variance  stats.Estimate // normalised, geometric mean over the runs
	norm      float64        // of the mean gradient, mean over the runs
	trace     float64        // of the covariance, mean over the runs
	signal    float64        // trace over an unbiased estimate of the squared norm of the mean; NaN if that is not positive
}

// summarize computes the cells, by iteration, size and estimator.
func (o *qualityOptions) summarize(all []*measurement) []cell {
	var cells []cell
	for _, at := range o.at {
		for _, size := range o.sizes {
			for _, estimator := range compared {
				cells = append(cells, summarizeOne(all, uint64(at), size, estimator))
			}
		}
	}
	return cells
}

func summarizeOne(all []*measurement, iteration uint64, size uint, estimator variant) cell {
	c := cell{iteration: iteration, size: size, estimator: estimator}
	var accuracies, without [][]float64
	var variances, norms, traces, signals, steps []float64
	for _, m := range all {
		if m.iteration != iteration {
			continue
		}
		var cosines []float64
		for _, b := range m.of(size) {
			cosines = append(cosines, cosine(b.gradients[estimator.directory], m.reference))
			steps = append(steps, b.steps)
		}
		accuracies = append(accuracies, cosines)
		g := gramOf(m.of(size), estimator)
		variances, without = append(variances, g.variance(-1)), append(without, g.jackknifed())
		trace, square := g.moments(-1)
		norms, traces = append(norms, math.Sqrt(square)), append(traces, trace)
		signals = append(signals, trace/(square-trace/float64(len(g))))
	}
	c.accuracy = meanOf(accuracies)
	c.variance = stats.Jackknife(variances, without)
	c.norm, c.trace, c.steps, c.signal = stats.Mean(norms), stats.Mean(traces), stats.Mean(steps), stats.Mean(signals)
	if slices.Min(signals) < 0 {
		c.signal = math.NaN()
	}
	return c
}

// truth returns the cosine between the reference and the true gradient that the cosine between its halves suggests (Spearman
// and Brown's formula, of numbers whose noise has no part in common); 0 where that is not positive.
func (m *measurement) truth() float64 {
	c := max(0, m.halves)
	return math.Sqrt(2 * c / (1 + c))
}

// of returns the batches of one size.
func (m *measurement) of(size uint) []batch {
	var all []batch
	for _, b := range m.batches {
		if b.size == size {
			all = append(all, b)
		}
	}
	return all
}

// meanOf returns the mean over all strata with its stratified bootstrap interval.
func meanOf(strata [][]float64) stats.Estimate {
	return stats.Bootstrap(strata, resamples, streams.New(0, streams.Study), stats.Pooled(stats.Mean))
}

// gram is the inner products of the repeats' gradients, from which their covariance's trace and their mean's norm
// follow, with any of them left out.
type gram [][]float64

func gramOf(batches []batch, estimator variant) gram {
	g := make(gram, len(batches))
	for i := range g {
		g[i] = make([]float64, len(batches))
		for k := range g {
			g[i][k] = floats.Dot(batches[i].gradients[estimator.directory], batches[k].gradients[estimator.directory])
		}
	}
	return g
}

// moments returns the trace of the covariance, with n-1, and the squared norm of the mean, of all gradients but one (-1:
// of all).
func (g gram) moments(without int) (trace, square float64) {
	n, diagonal := 0.0, 0.0
	for i := range g {
		if i == without {
			continue
		}
		n++
		diagonal += g[i][i]
		for k := range g {
			if k != without {
				square += g[i][k]
			}
		}
	}
	square /= n * n
	return (diagonal - n*square) / (n - 1), square
}

// variance returns the paper's normalised variance, of all gradients but one.
func (g gram) variance(without int) float64 {
	trace, square := g.moments(without)
	return trace / square
}

// jackknifed returns the variances without each gradient in turn; with two gradients nothing can be left out.
func (g gram) jackknifed() []float64 {
	all := make([]float64, len(g))
	for i := range all {
		all[i] = g.variance(i)
		if len(g) == 2 {
			all[i] = g.variance(-1)
		}
	}
	return all
}

// contrast is how the Bayesian gradients at one iteration differ from the Monte-Carlo ones of the same batches, over all
// sizes.
type contrast struct {
	iteration uint64
	accuracy  stats.Estimate // mean difference of the cosines
	variance  stats.Estimate // mean ratio of the normalised variances, geometric
}

// compare computes an estimator's contrast to Monte Carlo at an iteration.
func (o *qualityOptions) compare(all []*measurement, iteration uint64, estimator variant) contrast {
	var differences, without [][]float64
	var ratios []float64
	for _, m := range all {
		if m.iteration != iteration {
			continue
		}
		for _, size := range o.sizes {
			var difference []float64
			for _, b := range m.of(size) {
				difference = append(difference, cosine(b.gradients[estimator.directory], m.reference)-
					cosine(b.gradients[monteCarlo.directory], m.reference))
			}
			differences = append(differences, difference)
			one, other := gramOf(m.of(size), estimator), gramOf(m.of(size), monteCarlo)
			ratios = append(ratios, one.variance(-1)/other.variance(-1))
			left, right := one.jackknifed(), other.jackknifed()
			for i := range left {
				left[i] /= right[i]
			}
			without = append(without, left)
		}
	}
	return contrast{iteration, meanOf(differences), stats.Jackknife(ratios, without)}
}
