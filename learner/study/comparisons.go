package study

import (
	"fmt"
	"slices"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/chart"
)

// The variants that several comparisons share.
var (
	monteCarlo = variant{name: "MC", directory: "mc", color: chart.Gray, settings: []assignment{{"estimator", "mc"}}}
	bayesian   = variant{name: "DBQPG", directory: "dbqpg", color: 0, settings: []assignment{{"estimator", "dbqpg"}}}
	aware      = variant{name: "UAPG", directory: "uapg", color: 1, settings: []assignment{{"estimator", "uapg"}}}
)

// compared are the estimators that the paper compares, in the order of tables and legends.
var compared = []variant{monteCarlo, bayesian, aware}

// with returns the variant with another name and further settings.
func (v variant) with(name, directory string, color int, settings ...assignment) variant {
	return variant{name: name, directory: directory, color: color, settings: slices.Concat(v.settings, settings)}
}

// small makes runs short: batches of four Swimmer episodes.
func small(iterations, seeds string) map[string]string {
	return map[string]string{"iterations": iterations, "seeds": seeds, "set": "batch=4000"}
}

// comparisons are the paper's experiments that train variants and compare their returns.
var comparisons = []comparison{
	{
		name:       "curves",
		title:      "Learning curves",
		short:      "Learning curves of estimators, on tasks, with algorithms",
		question:   "Do better gradients learn faster? Each estimator with each algorithm on each task, as in the paper's\nfig:all_comp_plots.",
		algorithms: []string{"npg"},
		variants:   compared,
		claims: []claim{
			{paper: "DBQPG outperforms Monte Carlo in final performance, with every algorithm.", relation: above, pairs: [][2]string{{"dbqpg", "mc"}}},
			{paper: "UAPG outperforms DBQPG with VanillaPG and NPG.", relation: above, pairs: [][2]string{{"uapg", "dbqpg"}}, algorithms: []string{"vanilla", "npg"}},
			{paper: "With TRPO UAPG makes no significant difference to DBQPG.", relation: alike, pairs: [][2]string{{"uapg", "dbqpg"}}, algorithms: []string{"trpo"}},
		},
		quick: small("30", "1,2"),
	},
	{
		name:       "ablation",
		title:      "Ablation: deep kernel learning and structured kernel interpolation",
		short:      "What deep kernels and their interpolation contribute",
		question:   "What do the parts of DBQPG contribute? It is run without deep kernel learning (the base kernel on the\nobservations themselves), without that and structured kernel interpolation (inducing points, the\nbatch form of Bayesian actor-critic), and beside Monte Carlo, as in the paper's\nfig:appendix_Ablation_KernelSelection_WallClock, left.",
		algorithms: []string{"vanilla"},
		variants: []variant{bayesian,
			bayesian.with("w/o DKL", "raw", 2, assignment{"features", "raw"}),
			bayesian.with("w/o DKL & SKI", "raw-inducing", 3, assignment{"features", "raw"}, assignment{"inducing", "128"}),
			monteCarlo},
		claims: []claim{
			{paper: "Without deep kernel learning there is a noticeable drop in performance.", relation: above, pairs: [][2]string{{"dbqpg", "raw"}}},
			{paper: "Replacing interpolation by inducing points lowers it further.", relation: above, pairs: [][2]string{{"raw", "raw-inducing"}}},
			{paper: "What is left, Bayesian actor-critic in batches, still outperforms Monte Carlo.", relation: above, pairs: [][2]string{{"raw-inducing", "mc"}}},
		},
		quick: small("25", "1,2"),
	},
	{
		name:       "kernels",
		title:      "Base kernels of the deep kernel",
		short:      "The choice of the base kernel",
		question:   "Does the base kernel of the deep kernel matter? Each is run in place of the radial basis functions (rbf),\nand Monte Carlo beside them, as in the paper's fig:appendix_Ablation_KernelSelection_WallClock, right.",
		algorithms: []string{"vanilla"},
		variants:   kernelVariants(),
		claims:     kernelClaims(),
		quick:      small("12", "1"),
	},
	{
		name:       "fisher-samples",
		title:      "Samples of the Fisher matrix",
		short:      "The Fisher matrix from three times the samples",
		question:   "Does a better estimate of the Fisher matrix in the Fisher kernel help? It is taken from the gradient's own samples,\nand from three times as many, as in the paper's fig:appendix_fisher_estimation.",
		algorithms: []string{"vanilla"},
		variants: []variant{
			bayesian.with("1x", "1x", 0, assignment{"fisher_samples", "1x"}),
			bayesian.with("3x", "3x", 3, assignment{"fisher_samples", "3x"})},
		claims: []claim{{paper: "Three times the samples do not appreciably improve the performance.", relation: alike, pairs: [][2]string{{"3x", "1x"}}}},
		quick:  small("30", "1,2"),
	},
	{
		name:       "fisher",
		title:      "Which Fisher matrix",
		short:      "UAPG with the empirical Fisher matrix, and with the analytic one",
		question:   "Which Fisher matrix: UU'/n of the batch's own scores, as in the paper's equations, or its expectation over the\nactions, the Hessian of the divergence in the paper's text? Each in natural gradients and in UAPG's correction alike.",
		algorithms: []string{"npg"},
		variants: []variant{
			aware.with("empirical", "empirical", 0, assignment{"fisher", "empirical"}),
			aware.with("analytic", "analytic", 1, assignment{"fisher", "analytic"})},
		claims: []claim{{paper: "Either does (eqn:kernel_equations; appendix, fast kernel computation).", relation: alike, pairs: [][2]string{{"empirical", "analytic"}}}},
		quick:  small("30", "1,2"),
	},
	{
		name:       "uncertainty",
		title:      "Uncertainty-aware steps: UAPG and UBAC",
		short:      "Two ways to use the gradient's uncertainty",
		question:   "What is the gradient's uncertainty worth? UAPG's correction and that of uncertainty-based Bayesian actor-critic (UBAC)\nbeside DBQPG, which makes none, as in the paper's fig:appendix_uncertainty_expt.",
		algorithms: []string{"vanilla"},
		variants: []variant{aware,
			{name: "UBAC", directory: "ubac", color: 3, settings: []assignment{{"estimator", "ubac"}}},
			bayesian},
		claims: []claim{
			{paper: "UAPG outperforms UBAC.", relation: above, pairs: [][2]string{{"uapg", "ubac"}}},
			{paper: "Both outperform DBQPG.", relation: above, pairs: [][2]string{{"uapg", "dbqpg"}, {"ubac", "dbqpg"}}},
		},
		quick: small("30", "1,2"),
	},
}

// chosen returns the comparison's variants, of curves those of --estimator.
func (c comparison) chosen(o *compareOptions) ([]variant, error) {
	if c.name != "curves" {
		return c.variants, nil
	}
	var chosen []variant
	for _, name := range o.estimators {
		i := slices.IndexFunc(c.variants, func(v variant) bool { return v.directory == name })
		if i < 0 {
			return nil, fmt.Errorf("--estimator %s: want mc, dbqpg or uapg", name)
		}
		chosen = append(chosen, c.variants[i])
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("--estimator: at least one is needed")
	}
	return chosen, nil
}

// standardKernel is the kernel that the others replace.
const standardKernel = "rbf"

// kernelVariants returns all base kernels, and Monte Carlo.
func kernelVariants() []variant {
	var all []variant
	for i, name := range kernels.Names() {
		color := i
		if color >= chart.Gray {
			color++ // gray is Monte Carlo's
		}
		all = append(all, bayesian.with(name, name, color, assignment{"base_kernel", name}))
	}
	return append(all, monteCarlo)
}

func kernelClaims() []claim {
	same := claim{paper: "Most popular base kernels on a deep feature extractor do nearly alike.", relation: alike}
	better := claim{paper: "All easily outperform Monte Carlo.", relation: above}
	for _, name := range kernels.Names() {
		better.pairs = append(better.pairs, [2]string{name, monteCarlo.directory})
		if name != standardKernel {
			same.pairs = append(same.pairs, [2]string{name, standardKernel})
		}
	}
	return []claim{same, better}
}
