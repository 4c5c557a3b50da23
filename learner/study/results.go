package study

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// group is the runs of a variant with an algorithm on a task, one a seed.
type group struct {
	setting
	variant  variant
	seeds    []uint
	steps    [][]float64 // environment steps so far, by seed and iteration
	returns  [][]float64 // mean return of the episodes, by seed and iteration
	norms    []float64   // lengths of the policy's steps, of all iterations
	updating []float64   // seconds of the update, of all iterations

	unnamed map[string]string // settings of the first run that its variant does not name
}

// setting is a task with an algorithm, and a preset where there are several: what is compared with each other.
type setting struct{ env, algorithm, preset string }

func (s setting) String() string {
	if s.preset == "" {
		return s.env + ", " + s.algorithm
	}
	return s.env + ", " + s.algorithm + ", " + s.preset
}

// results are the groups of a comparison, those of a setting all of as many iterations.
type results struct {
	groups  []*group
	planned []member
	missing []member // that are not complete
	trained []count  // runs by what trained them
	on      []string // the machines
	notes   []count  // runs by what there is to know of them
	last    int      // iterations that make the final return; 0: a tenth

	references *results // curves of other programs, of as many iterations at most; nil: none
}

// gather reads the published runs.
func (o *compareOptions) gather(members []member) (*results, error) {
	r := &results{planned: members, last: o.last}
	for _, m := range members {
		p, err := m.load()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		if p == nil {
			r.missing = append(r.missing, m)
			continue
		}
		g := r.find(m.setting, m.variant.directory)
		if g == nil {
			g = &group{setting: m.setting, variant: m.variant, unnamed: m.unnamed(members)}
			r.groups = append(r.groups, g)
		}
		g.seeds = append(g.seeds, m.seed)
		g.steps, g.returns = append(g.steps, p.columns["steps"]), append(g.returns, p.columns["return_mean"])
		g.norms = append(g.norms, p.columns["step_norm"]...)
		g.updating = append(g.updating, p.columns["seconds_updating"]...)
		r.record(p.Builds)
		if p.Note != "" {
			r.notes = tally(r.notes, p.Note)
		}
	}
	if len(r.groups) == 0 {
		return nil, errors.New("no run is complete yet")
	}
	var ordered []*group // those of a setting one after the other, in whatever order they were trained
	for _, g := range r.groups {
		g.sort()
	}
	for _, s := range r.settings() {
		ordered = append(ordered, r.of(s)...)
		iterations := r.iterations(s)
		for _, g := range r.of(s) {
			g.cut(iterations)
		}
	}
	r.groups = ordered
	return r, o.refer(r)
}

// sort puts the runs into the order of their seeds.
func (g *group) sort() {
	seeds, steps, returns := slices.Clone(g.seeds), slices.Clone(g.steps), slices.Clone(g.returns)
	slices.Sort(g.seeds)
	for i, seed := range g.seeds {
		from := slices.Index(seeds, seed)
		g.steps[i], g.returns[i] = steps[from], returns[from]
	}
}

// refer reads the references, to as many iterations as the runs have. Those of other estimators get colours that no run has.
func (o *compareOptions) refer(r *results) error {
	if len(o.references) == 0 {
		return nil
	}
	r.references = &results{last: r.last}
	for _, reference := range o.references {
		if err := r.references.readReference(reference, r); err != nil {
			return fmt.Errorf("--reference: %w", err)
		}
	}
	var names []string // by their colours
	for _, g := range r.groups {
		colorOf(&names, g.variant.name, g.variant.color)
	}
	for _, g := range r.references.groups {
		g.cut(r.iterations(g.setting))
		if g.variant.color < 0 {
			g.variant.color = colorOf(&names, g.variant.name, 0)
		}
	}
	return nil
}

// record notes what trained a run, and where.
func (r *results) record(builds []runs.Build) {
	r.trained = tally(r.trained, programs(builds))
	for _, b := range builds {
		if !slices.Contains(r.on, b.Machine) {
			r.on = append(r.on, b.Machine)
		}
	}
}

// count is a number of things that are the same.
type count struct {
	what string
	n    int
}

// tally counts one more.
func tally(counts []count, what string) []count {
	i := slices.IndexFunc(counts, func(c count) bool { return c.what == what })
	if i < 0 {
		return append(counts, count{what, 1})
	}
	counts[i].n++
	return counts
}

// iterations returns the number of iterations that all runs of a setting have.
func (r *results) iterations(s setting) int {
	least := math.MaxInt
	for _, g := range r.of(s) {
		for _, curve := range g.returns {
			least = min(least, len(curve))
		}
	}
	return least
}

// lastOf returns the number of iterations of a setting over which the final return is averaged.
func (r *results) lastOf(s setting) int { return r.window(r.iterations(s)) }

// window returns the number of iterations over which the final return is averaged, of so many.
func (r *results) window(iterations int) int {
	if r.last > 0 {
		return min(r.last, iterations)
	}
	return max(1, iterations/10)
}

// find returns a group by its names, nil if there is none.
func (r *results) find(s setting, directory string) *group {
	i := slices.IndexFunc(r.groups, func(g *group) bool { return g.setting == s && g.variant.directory == directory })
	if i < 0 {
		return nil
	}
	return r.groups[i]
}

// settings returns the settings of the groups, in order.
func (r *results) settings() []setting {
	var all []setting
	for _, g := range r.groups {
		if !slices.Contains(all, g.setting) {
			all = append(all, g.setting)
		}
	}
	return all
}

// of returns the groups of a task and an algorithm, in the order of the variants.
func (r *results) of(s setting) []*group {
	var all []*group
	for _, g := range r.groups {
		if g.setting == s {
			all = append(all, g)
		}
	}
	return all
}

// finals returns the final returns of a group's runs.
func (r *results) finals(g *group) []float64 {
	var all []float64
	last := r.window(len(g.returns[0]))
	for _, curve := range g.returns {
		all = append(all, knownMean(curve[len(curve)-last:]))
	}
	return all
}

// overalls returns the mean returns over all iterations, the area under the learning curves.
func (r *results) overalls(g *group) []float64 {
	var all []float64
	for _, curve := range g.returns {
		all = append(all, knownMean(curve))
	}
	return all
}

// knownMean returns the mean of the values that are known, NaN if none is: in a batch of segments no episode may have ended.
func knownMean(values []float64) float64 {
	return stats.Mean(known(values))
}

func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// resamples of a bootstrap; of each point of a curve there are fewer.
const (
	resamples      = 10000
	curveResamples = 1000
)

// enough is the least number of runs of a variant that intervals are given for. A bootstrap of fewer covers far less
// than its nominal 95 %: their values are shown one by one, and settle no claim.
const enough = 5

// interval returns a statistic of the runs of one or two variants with its interval, which is NaN of fewer than enough.
func interval(runs [][]float64, resamples int, statistic func([][]float64) float64) stats.Estimate {
	for _, values := range runs {
		if len(values) < enough {
			return stats.Estimate{Value: statistic(runs), Low: math.NaN(), High: math.NaN()}
		}
	}
	return stats.Bootstrap(runs, resamples, streams.New(0, streams.Study), statistic)
}

// iqm returns the interquartile mean of runs with its interval.
func iqm(values []float64, resamples int) stats.Estimate {
	return interval([][]float64{values}, resamples, stats.Pooled(stats.IQM))
}

// ahead returns the difference of the interquartile means, the first minus the second.
func ahead(first, second []float64) stats.Estimate {
	return interval([][]float64{first, second}, resamples, stats.Difference(stats.IQM))
}

// smooth returns the running means of each run's returns, of that width.
func (g *group) smooth(width int) [][]float64 {
	all := make([][]float64, len(g.returns))
	for i, curve := range g.returns {
		all[i] = stats.RunningMean(curve, width)
	}
	return all
}

// band returns a learning curve: at each iteration the interquartile mean over the runs.
func band(runs [][]float64) []stats.Estimate {
	points := make([]stats.Estimate, len(runs[0]))
	at := make([]float64, len(runs))
	for t := range points {
		for i := range runs {
			at[i] = runs[i][t]
		}
		points[t] = iqm(at, curveResamples)
	}
	return points
}
