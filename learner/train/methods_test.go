package train_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// alternatives are the settings of a method, away from their defaults.
var alternatives = []struct {
	name    string
	applies func(config.Estimator) bool
	set     func(*config.Settings)
}{
	{"paper", bayesian, func(s *config.Settings) { s.Noise, s.FisherVariance = 1e-4, 1 }},
	{"completion", bayesian, func(s *config.Settings) { s.Completion = true }},
	{"raw", bayesian, func(s *config.Settings) { s.Features = config.Raw }},
	{"inducing", bayesian, func(s *config.Settings) { s.Inducing = 10 }},
	{"raw inducing", bayesian, func(s *config.Settings) { s.Features, s.Inducing = config.Raw, 10 }},
	{"cg", bayesian, func(s *config.Settings) { s.Solver = config.ConjugateGradient }},
	{"exact", bayesian, func(s *config.Settings) { s.Solver, s.FisherKernel = config.ConjugateGradient, config.Exact }},
	{"twice the Fisher samples", bayesian, func(s *config.Settings) { s.FisherSamples = 2 }},
	{"empirical", aware, func(s *config.Settings) { s.Fisher = config.Empirical }},
	{"converge", func(config.Estimator) bool { return true },
		func(s *config.Settings) { s.ValueLearning = config.Converge }},
	{"randomized", uapg, func(s *config.Settings) { s.Covariance = config.Randomized }},
}

func bayesian(e config.Estimator) bool { return e != config.MonteCarlo }
func aware(e config.Estimator) bool    { return uapg(e) || e == config.UBAC }
func uapg(e config.Estimator) bool     { return e == config.UAPG }

// Every algorithm takes steps with every estimator and all kinds of targets, and fills in the columns that apply to it
// and no others. Each setting makes a difference, except the solver, which must not make one.
func TestMethods(t *testing.T) {
	for _, algorithm := range []config.Algorithm{config.Vanilla, config.NPG, config.TRPO} {
		for _, estimator := range []config.Estimator{config.MonteCarlo, config.DBQPG, config.UAPG, config.UBAC} {
			if estimator == config.UBAC && algorithm != config.Vanilla {
				continue
			}
			for _, targets := range []config.Targets{config.Returns, config.GAE} {
				t.Run(fmt.Sprintf("%s-%s-%s", algorithm, estimator, targets), func(t *testing.T) {
					testMethod(t, algorithm, estimator, targets)
				})
			}
		}
	}
}

func testMethod(t *testing.T, algorithm config.Algorithm, estimator config.Estimator, targets config.Targets) {
	prepare := func() *config.Settings {
		s := settings(t, "Hopper-v2", algorithm, estimator)
		s.Batch, s.Rank, s.Iterations, s.Targets = 100, 15, 2, targets
		return s
	}
	first, usual := trainMethod(t, "defaults", prepare())
	length := floats.Distance(usual, first, 2)
	all := prepare()
	for _, a := range alternatives {
		if !a.applies(estimator) || a.name == "converge" && targets != config.GAE {
			continue
		}
		s := prepare()
		a.set(s)
		// whose noise takes the exact Fisher kernel many iterations; no cg with these
		if a.name != "paper" && s.Inducing == 0 {
			a.set(all)
		}
		_, other := trainMethod(t, a.name, s)
		switch d := floats.Distance(other, usual, 2) / length; {
		case a.name == "cg" && d > 0.01:
			t.Errorf("with --solver cg the policy ends %v of its way from where it ends without", d)
		case a.name != "cg" && d < 1e-4:
			t.Errorf("with %s the policy goes the same way", a.name)
		}
	}
	if bayesian(estimator) {
		trainMethod(t, "all alternatives", all)
	}
}

// trainMethod trains, and returns the policy's first parameters and its last.
func trainMethod(t *testing.T, what string, s *config.Settings) (first, last []float64) {
	t.Helper()
	j := trainSerially(t, s)
	for _, row := range j.rows {
		for _, complaint := range complaints(s, row) {
			t.Errorf("%s, iteration %d: %s", what, row.Iteration, complaint)
		}
	}
	return j.states[0].Arrays["policy.params"], j.states[s.Iterations].Arrays["policy.params"]
}

// complaints says what a row has that it should not have: a number in a column that does not apply, none where one does
// (runs.Row says which), or a wrong one.
func complaints(s *config.Settings, row runs.Row) (all []string) {
	applies := map[string]bool{
		"value_loss":         s.Targets == config.GAE,
		"explained_variance": s.Targets == config.GAE,
		"value_passes":       s.ValueLearning == config.Converge,
		"cg_iterations":      s.Algorithm != config.Vanilla,
		"backtracks":         s.Algorithm == config.TRPO,
	}
	for _, name := range []string{
		"fisher_rank", "noise", "lengthscale", "log_likelihood", "output_scale", "fisher_variance",
	} {
		applies[name] = bayesian(s.Estimator)
	}
	if base, err := kernels.Lookup(s.BaseKernel); err == nil &&
		!slices.Contains(base.Hyperparameters(), "lengthscale") {
		applies["lengthscale"] = false
	}
	calibrated := bayesian(s.Estimator) && s.Solver == config.Direct
	if row.Iteration != 0 && math.IsNaN(row.Coverage90) {
		calibrated = false // rough kernels pass nine iterations of ten over
	}
	for _, name := range []string{"coverage_50", "coverage_90", "held_out_log_likelihood", "gaussian_log_likelihood"} {
		applies[name] = calibrated
	}
	for _, name := range []string{"normal_coverage_50", "normal_coverage_90"} {
		applies[name] = calibrated && s.KernelLearning == config.Converge
	}
	// of a normal distribution there are none
	applies["noise_degrees"] = s.KernelLearning == config.Converge && !math.IsNaN(row.NoiseDegrees)
	complain := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	fields := reflect.ValueOf(row)
	for i, name := range progress.Columns[progress.Row]() {
		if want, listed := applies[name]; fields.Field(i).CanFloat() {
			x := fields.Field(i).Float()
			complain(math.IsNaN(x) == (want || !listed) || math.IsInf(x, 0), "%s is %v", name, x)
		}
	}
	complain(s.Noise != config.Learned && bayesian(s.Estimator) && row.Noise != s.Noise, "noise %v, fixed at %v",
		row.Noise, s.Noise)
	complain(s.FisherVariance != config.Learned && bayesian(s.Estimator) && row.FisherVariance != s.FisherVariance,
		"Fisher variance %v, fixed at %v", row.FisherVariance, s.FisherVariance)
	complain(s.Noise == config.Learned && row.Noise < 0.5, "noise %v, a learned one begins near 0.69", row.Noise)
	complain(s.Algorithm == config.TRPO && row.KL > s.MaxKL, "divergence %v, the trust region ends at %v", row.KL,
		s.MaxKL)
	complain(row.Coverage50 < 0 || row.Coverage90 < row.Coverage50 || row.Coverage90 > 1,
		"coverage %v of the 50 %% and %v of the 90 %% interval", row.Coverage50, row.Coverage90)
	complain(row.StepNorm == 0, "the policy stood still")
	return all
}

// Bootstrapping changes what is made of episodes that the time limit ended, and nothing about those that the task did.
func TestBootstrap(t *testing.T) {
	for _, x := range []struct {
		env     string
		changes bool
	}{{"HalfCheetah-v2", true}, {"Hopper-v2", false}} {
		s := settings(t, x.env, config.NPG, config.MonteCarlo)
		s.Targets, s.Batch, s.Iterations = config.GAE, 300, 1
		without := trainSerially(t, s).states[1].Arrays
		s.Bootstrap = true
		with := trainSerially(t, s).states[1].Arrays
		for _, name := range []string{"policy.params", "critic.params"} {
			if changes := !reflect.DeepEqual(with[name], without[name]); changes != x.changes {
				t.Errorf("%s: bootstrapping changes %s: %v", x.env, name, changes)
			}
		}
	}
}
