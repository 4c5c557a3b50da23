package study

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/internal/stats"
)

// relation is a claimed relation of two variants.
type relation int

const (
	above relation = iota // the first returns more than the second
	alike                 // neither returns more
)

// claim is a statement of the paper about variants, as comparisons of pairs.
type claim struct {
	paper      string // as a sentence
	relation   relation
	pairs      [][2]string // directories of variants
	algorithms []string    // with which it is claimed; nil: all
}

// outcome is the outcome of a comparison.
type outcome int

const (
	agrees      outcome = iota
	leans               // the difference is as claimed, but within the scatter of the runs
	undecided           // it is not as claimed, but within the scatter of the runs; or not known to be small, nor to be large
	contradicts         // it is opposite to the claim, or too large to be alike
	unknown             // too few runs to know their scatter
)

func (o outcome) String() string {
	return [...]string{"agrees", "leans that way, within the scatter", "undecided, within the scatter", "disagrees", "fewer than five runs each: cannot tell"}[o]
}

// margin is the difference, as a share of the second variant's return, that two variants called alike may have.
const margin = 0.1

// judge compares a difference with the claim: without an interval it is unknown. large is the least difference that
// would matter.
func (r relation) judge(difference stats.Estimate, large float64) outcome {
	switch {
	case math.IsNaN(difference.Low):
		return unknown
	case r == alike && -large < difference.Low && difference.High < large:
		return agrees
	case r == alike && (difference.Low >= large || difference.High <= -large):
		return contradicts
	case r == alike:
		return undecided
	case difference.Low > 0:
		return agrees
	case difference.Value > 0:
		return leans
	case difference.High >= 0:
		return undecided
	}
	return contradicts
}

// finding is a measured pair of a claim.
type finding struct {
	setting        setting
	first, second  *group
	final, overall stats.Estimate // the first's lead in final return, and over all iterations
	improvement    stats.Estimate // probability that a run of the first is above one of the second at the end
	outcome        outcome        // by the final return
}

// check measures a claim wherever both variants of a pair were run.
func (r *results) check(c claim) []finding {
	var all []finding
	for _, s := range r.settings() {
		if c.algorithms != nil && !slices.Contains(c.algorithms, s.algorithm) {
			continue
		}
		for _, pair := range c.pairs {
			first, second := r.claimed(s, pair[0]), r.claimed(s, pair[1])
			if first == nil || second == nil {
				continue
			}
			f := finding{setting: s, first: first, second: second,
				final:       ahead(r.finals(first), r.finals(second)),
				overall:     ahead(r.overalls(first), r.overalls(second)),
				improvement: interval([][]float64{r.finals(first), r.finals(second)}, resamples, stats.ProbabilityOfImprovement),
			}
			f.outcome = c.relation.judge(f.final, margin*math.Abs(stats.IQM(r.finals(second))))
			all = append(all, f)
		}
	}
	return all
}

// claimed returns the group that a claim means, nil if there is none.
func (r *results) claimed(s setting, role string) *group {
	for _, g := range r.of(s) {
		if cmp.Or(g.variant.role, g.variant.directory) == role {
			return g
		}
	}
	return nil
}

// summary counts the findings' outcomes, in words.
func summary(c claim, findings []finding) string {
	counts := map[outcome]int{}
	for _, f := range findings {
		counts[f.outcome]++
	}
	n := len(findings) - counts[unknown]
	switch {
	case len(findings) == 0:
		return "not compared: not all of these variants were run."
	case n == 0:
		return "fewer than five runs of each cannot tell, whatever their difference."
	}
	rest := "."
	if counts[unknown] > 0 {
		rest = fmt.Sprintf("; in %d more, fewer than five runs of each cannot tell.", counts[unknown])
	}
	switch {
	case counts[agrees] == n:
		return fmt.Sprintf("**agrees**, in %s%s", comparisonsOf(n), rest)
	case counts[agrees] > 0 && counts[agrees]+counts[leans] == n:
		return fmt.Sprintf("**leans that way**: every difference is as claimed, %d of %d beyond the scatter of the runs%s", counts[agrees], n, rest)
	case counts[contradicts] == 0:
		return fmt.Sprintf("**undecided**: as claimed in %d of %s, and no difference the other way is beyond the scatter of the runs%s",
			counts[agrees]+counts[leans], plural(n, "comparison"), rest)
	case counts[contradicts] == n:
		return fmt.Sprintf("**disagrees**, in %s%s", comparisonsOf(n), rest)
	}
	text := fmt.Sprintf("**agrees in part**: in %d of %s", counts[agrees], plural(n, "comparison"))
	if counts[agrees] == 0 {
		text = fmt.Sprintf("**agrees nowhere**, in %s", plural(n, "comparison"))
	}
	if counts[leans]+counts[undecided] > 0 {
		text += fmt.Sprintf(", %d within the scatter of the runs", counts[leans]+counts[undecided])
	}
	return text + fmt.Sprintf(", and disagrees in %d%s", counts[contradicts], rest)
}

func comparisonsOf(n int) string {
	if n == 1 {
		return "the one comparison"
	}
	return fmt.Sprintf("all %d comparisons", n)
}
