package study

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// estimation is an estimator with what it is given.
type estimation struct {
	targets   string
	estimator string // directory of a variant
	posterior string // "" for Monte Carlo
}

// The targets and the posteriors.
const (
	rawReturns = "returns"
	lessValues = "less V"
	nominal    = "nominal"
	learned    = "learned"
)

func (c estimation) String() string {
	return strings.TrimSpace(c.targets + " " + c.estimator + " " + c.posterior)
}

// estimations are all, in the order of tables.
func estimations() (all []estimation) {
	for _, targets := range []string{rawReturns, lessValues} {
		all = append(all, estimation{targets, monteCarlo.directory, ""})
		for _, posterior := range []string{nominal, learned} {
			all = append(all, estimation{targets, bayesian.directory, posterior}, estimation{targets, aware.directory, posterior})
		}
	}
	return all
}

// estimated is what the page needs of one gradient.
type estimated struct {
	cosine float64 // to the reference
	norm   float64
	along  float64 // its component along the mean of the repeats' gradients
	gain   float64 // expected, of the natural gradient's step, in units of that of the reference's
}

// quality is what is known of one policy: published under data/, and read by the page.
type quality struct {
	qualityRecord
	sizes   []uint
	samples map[uint]float64                    // by size, the mean of its batches
	batches map[estimation]map[uint][]estimated // by size, one a repeat
}

// qualityRecord says what made it.
type qualityRecord struct {
	record        `yaml:",inline"` // of the run
	MeasuredBy    runs.Build       `yaml:"measured_by"`
	Iteration     uint64
	Steps         uint64 // trained
	Return        float64
	Reference     float64 // samples
	Halves        float64 // cosine between the gradients of the reference's halves
	NaturalHalves float64 `yaml:"natural_halves"`
	SamplingSeed  uint64  `yaml:"sampling_seed"`
}

var qualityColumns = []string{"size", "samples", "targets", "estimator", "posterior", "cosine", "norm", "along", "gain"}

// publish writes what the page needs of a policy to data/.
func (p *probe) publish(j *job, r *reference, batches []batch, uncertainty [][]string) error {
	lines := [][]string{qualityColumns}
	for _, size := range p.sizes {
		of := slices.DeleteFunc(slices.Clone(batches), func(b batch) bool { return b.size != size })
		for _, c := range estimations() {
			var sum []float64
			for _, b := range of {
				sum = accumulate(sum, 1, b.gradients[c.String()])
			}
			length := floats.Norm(sum, 2)
			for _, b := range of {
				g, natural := b.gradients[c.String()], b.gradients[c.String()+naturalSuffix]
				line := []string{fmt.Sprint(size), fmt.Sprint(b.steps), c.targets, c.estimator, c.posterior}
				for _, x := range []float64{
					cosine(g, r.gradient), floats.Norm(g, 2), floats.Dot(g, sum) / length,
					floats.Dot(r.gradient, natural) / math.Sqrt(b.gradients[c.String()+lengthSuffix][0]) / r.natural,
				} {
					line = append(line, short(x, qualityDigits))
				}
				lines = append(lines, line)
			}
		}
	}
	s := p.subject.settings
	made, err := newRecord(s)
	if err != nil {
		return err
	}
	record := qualityRecord{record: made, MeasuredBy: runs.Build{Program: device.Versions(), Machine: device.Machine()},
		Iteration: p.restored.state.Iteration, Steps: p.restored.state.Steps, Return: r.returns,
		Reference: r.samples, Halves: cosine(r.halves[0], r.halves[1]), NaturalHalves: r.naturalHalves, SamplingSeed: p.samplingSeed}
	if err := writeRecorded(j.path("data", s.Env, fmt.Sprintf("uncertainty-%d", record.Iteration)), record, uncertainty); err != nil {
		return err
	}
	return writeRecorded(j.path("data", s.Env, fmt.Sprintf("iteration-%d", record.Iteration)), record, lines)
}

// qualityDigits are those of published numbers.
const qualityDigits = 5

// qualities reads all policies under data/, by task and iteration.
func (j *job) qualities() ([]*quality, error) {
	paths, err := filepath.Glob(j.path("data", "*", "iteration-*.csv"))
	if err != nil {
		return nil, err
	}
	var all []*quality
	for _, path := range paths {
		q, err := readQuality(strings.TrimSuffix(path, ".csv"))
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--out %s: nothing is measured yet: there is no data/TASK/iteration-*.csv", j.out)
	}
	slices.SortStableFunc(all, func(a, b *quality) int { // the tasks' order is that of the paths
		if a.task() != b.task() {
			return 0
		}
		return int(a.Iteration) - int(b.Iteration)
	})
	return all, nil
}

// readQuality reads a policy.
func readQuality(path string) (*quality, error) {
	q := &quality{samples: map[uint]float64{}, batches: map[estimation]map[uint][]estimated{}}
	text, err := os.ReadFile(path + ".yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &q.qualityRecord)
	}
	if err != nil {
		return nil, fmt.Errorf("%s.yaml: %w", path, err)
	}
	err = readRows(path+".csv", qualityColumns, func(row []string) error {
		size, err := strconv.ParseUint(row[0], 10, 32)
		c := estimation{row[2], row[3], row[4]}
		if err != nil || !slices.Contains(estimations(), c) {
			return errors.Join(err, fmt.Errorf("no contender is %q", c))
		}
		var x [5]float64
		for i, column := range []int{1, 5, 6, 7, 8} {
			if x[i], err = number(row[column]); err != nil {
				return fmt.Errorf("%s: %w", qualityColumns[column], err)
			}
		}
		bySize := q.batches[c]
		if bySize == nil {
			bySize = map[uint][]estimated{}
			q.batches[c] = bySize
		}
		if !slices.Contains(q.sizes, uint(size)) {
			q.sizes = append(q.sizes, uint(size))
		}
		bySize[uint(size)] = append(bySize[uint(size)], estimated{x[1], x[2], x[3], x[4]})
		n := float64(len(bySize[uint(size)]))
		if c == (estimation{rawReturns, monteCarlo.directory, ""}) {
			q.samples[uint(size)] += (x[0] - q.samples[uint(size)]) / n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return q, q.validate(path)
}

// validate fails unless every contender has the same batches, at least two of each size.
func (q *quality) validate(path string) error {
	for _, c := range estimations() {
		for _, size := range q.sizes {
			n := len(q.batches[c][size])
			if n < 2 || n != len(q.batches[estimations()[0]][size]) {
				return fmt.Errorf("%s.csv: %s has %s of size %d", path, c, plural(n, "batch"), size)
			}
		}
	}
	if len(q.sizes) == 0 {
		return fmt.Errorf("%s.csv has no batches", path)
	}
	return nil
}

func (q *quality) task() string { return q.Settings["env"] }

func (q *quality) String() string { return fmt.Sprintf("%s, %d", q.task(), q.Iteration) }

// truth returns the cosine between a reference and the true gradient that the cosine c between its halves suggests (Spearman
// and Brown's formula, of numbers whose noise has no part in common); 0 where that is not positive.
func truth(c float64) float64 {
	c = max(0, c)
	return math.Sqrt(2 * c / (1 + c))
}

// repeated are gradients of batches of one size.
type repeated []estimated

// of returns one number of each.
func (r repeated) of(what func(estimated) float64) []float64 {
	all := make([]float64, len(r))
	for i, e := range r {
		all[i] = what(e)
	}
	return all
}

func byCosine(e estimated) float64 { return e.cosine }
func byGain(e estimated) float64   { return e.gain }

// moments returns the trace of the covariance, with n-1, and the squared norm of the mean, of all gradients but one (-1:
// of all). With their sum S = n m, m the mean component along S, |S - g|² = n² m² - 2 n m along(g) + |g|².
func (r repeated) moments(without int) (trace, square float64) {
	n, squares := float64(len(r)), 0.0
	m := stats.Mean(r.of(func(e estimated) float64 { return e.along }))
	for _, e := range r {
		squares += e.norm * e.norm
	}
	square = m * m
	if without >= 0 {
		e := r[without]
		square = max(0, n*n*m*m-2*n*m*e.along+e.norm*e.norm) / ((n - 1) * (n - 1))
		squares -= e.norm * e.norm
		n--
	}
	return (squares - n*square) / (n - 1), square
}

// variance returns the paper's normalised variance, of all gradients but one.
func (r repeated) variance(without int) float64 {
	trace, square := r.moments(without)
	return trace / square
}

// spread returns a function that computes the standard deviation of a number of all gradients but one.
func (r repeated) spread(what func(estimated) float64) func(without int) float64 {
	x := r.of(what)
	return func(without int) float64 {
		if without < 0 {
			return stats.StdDev(x)
		}
		return stats.StdDev(slices.Delete(slices.Clone(x), without, without+1))
	}
}

// jackknife returns the geometric mean over strata of a positive statistic of n measurements each, as a function of the one
// left out, with its interval if there are enough of them.
func jackknife(n []int, statistics []func(without int) float64) stats.Estimate {
	var values []float64
	var without [][]float64
	few := false
	for k, statistic := range statistics {
		few = few || n[k] < enough
		values = append(values, statistic(-1))
		var each []float64
		for i := range n[k] {
			left := i
			if n[k] == 2 {
				left = -1 // nothing can be left out
			}
			each = append(each, statistic(left))
		}
		without = append(without, each)
	}
	e := stats.Jackknife(values, without)
	if few {
		e.Low, e.High = math.NaN(), math.NaN()
	}
	return e
}

// contrast is how two contenders differ in the same batches of a policy, over all sizes.
type contrast struct {
	cosine, gain             stats.Estimate // mean differences, the first's less the second's
	variance                 stats.Estimate // mean ratio of the normalised variances, geometric
	cosineSpread, gainSpread stats.Estimate // mean ratios of the standard deviations over the repeats, geometric
}

// compare computes the contrast of two contenders.
func (q *quality) compare(one, other estimation) contrast {
	var cosines, gains [][]float64
	var n []int
	var variances, cosineSpreads, gainSpreads []func(int) float64
	ratio := func(a, b func(int) float64) func(int) float64 {
		return func(without int) float64 { return a(without) / b(without) }
	}
	for _, size := range q.sizes {
		a, b := repeated(q.batches[one][size]), repeated(q.batches[other][size])
		n = append(n, len(a))
		cosines = append(cosines, floats.SubTo(make([]float64, len(a)), a.of(byCosine), b.of(byCosine)))
		gains = append(gains, floats.SubTo(make([]float64, len(a)), a.of(byGain), b.of(byGain)))
		variances = append(variances, ratio(a.variance, b.variance))
		cosineSpreads = append(cosineSpreads, ratio(a.spread(byCosine), b.spread(byCosine)))
		gainSpreads = append(gainSpreads, ratio(a.spread(byGain), b.spread(byGain)))
	}
	mean := stats.Pooled(stats.Mean)
	return contrast{
		cosine: interval(cosines, resamples, mean), gain: interval(gains, resamples, mean),
		variance: jackknife(n, variances), cosineSpread: jackknife(n, cosineSpreads), gainSpread: jackknife(n, gainSpreads),
	}
}

// cell is what a contender's gradients from batches of one size are like.
type cell struct {
	estimation
	size           uint
	accuracy, gain stats.Estimate // means over the repeats
	variance       stats.Estimate // normalised
	norm, trace    float64        // of the mean gradient; of the covariance
	signal         float64        // trace over an unbiased estimate of the squared norm of the mean; NaN if that is not positive
}

// cells summarises the batches of one size, by contender.
func (q *quality) cells(size uint) (all []cell) {
	for _, c := range estimations() {
		r := repeated(q.batches[c][size])
		trace, square := r.moments(-1)
		signal := trace / (square - trace/float64(len(r)))
		if signal < 0 {
			signal = math.NaN()
		}
		all = append(all, cell{estimation: c, size: size,
			accuracy: interval([][]float64{r.of(byCosine)}, curveResamples, stats.Pooled(stats.Mean)),
			gain:     interval([][]float64{r.of(byGain)}, curveResamples, stats.Pooled(stats.Mean)),
			variance: jackknife([]int{len(r)}, []func(int) float64{r.variance}),
			norm:     math.Sqrt(square), trace: trace, signal: signal})
	}
	return all
}
