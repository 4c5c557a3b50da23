package gradient

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/train"
)

// golden reads a batch with exact answers: float64, dense linear algebra, scores by
// automatic differentiation one sample at a time, the radial basis function without a
// grid, exact eigenpairs.
func golden(t *testing.T, name string) npz.Arrays {
	t.Helper()
	arrays, err := npz.ReadFile(filepath.Join("../../estimators/testdata", name+".npz"))
	if err != nil {
		t.Fatal(err)
	}
	return arrays
}

// answer computes what can be computed from the inputs alone.
func answer(t *testing.T, b compute.Backend, arrays npz.Arrays, options Options) npz.Arrays {
	t.Helper()
	inputs := npz.Arrays{}
	for name, array := range arrays {
		if !strings.HasPrefix(name, "expect_") {
			inputs[name] = array
		}
	}
	batch, err := Parse(inputs)
	if err != nil {
		t.Fatal(err)
	}
	scope := compute.NewScope(b)
	defer scope.Release()
	c := newComputation(scope, batch, options)
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	if batch.Samples() <= smallBatch {
		c.spectra(t)
	}
	return c.out
}

// spectra computes the leading eigenvalues of the uncertainties with the analytic Fisher matrix, by hundreds of
// products with it.
func (c *computation) spectra(t *testing.T) {
	t.Helper()
	const depth = 5 // of a randomised decomposition that stands for the exact one
	batch := c.at.Batch
	batch.Fisher = train.Analytic(c.b, c.at, c.Damping)
	estimate, err := (&estimators.Quadrature{Kernel: c.Kernel}).Integrate(c.scope, &batch, c.posterior)
	if err != nil {
		t.Fatal(err)
	}
	for name, matrix := range map[string]func() (*estimators.Uncertainty, error){
		"cov_spectrum": estimate.Covariance, "natural_precision_spectrum": estimate.Precision,
	} {
		uncertainty, err := matrix()
		if err != nil {
			t.Fatal(err)
		}
		decompose := estimators.Randomized(len(c.at.SVD.S), depth, streams.New(c.options.Seed))
		pairs, err := decompose(c.scope, uncertainty)
		if err != nil {
			t.Fatal(err)
		}
		c.vector(name, pairs.Values)
	}
}

// tolerance is how far an answer may be from the exact one, relative to its norm. The
// grid's 128 points are what separates them; where it has no part, rounding is.
func tolerance(name string) float64 {
	switch {
	case slices.Contains([]string{"returns", "values", "gae", "feature_scaled", "singular_values", "mc_policy"}, name):
		return 1e-13
	case name == "natural_mc_policy", strings.HasSuffix(name, "_spectrum"):
		return 1e-6
	case strings.HasPrefix(name, "mll_grad_"):
		return 1e-3
	}
	return 1e-4
}

// Everything against the exact answers, by either solver and either Fisher matrix, on
// memory that the host cannot read.
func TestGolden(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		for _, c := range []struct {
			name    string
			options Options
			cosine  float64 // of UAPG's gradients, found as the options say, to the exact ones
		}{
			{"direct", Options{}, 0.99},
			{"cg", Options{Solver: config.ConjugateGradient}, 0.99},
			{"empirical", Options{Fisher: config.Empirical}, 0.98},
			{"randomized", Options{Covariance: config.Randomized, Seed: 1}, 0.95},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				want := golden(t, name)
				opaque := computetest.Opaque(cpu.New(2))
				answers := answer(t, opaque, want, c.options)
				if live := opaque.Live(); live != 0 {
					t.Errorf("%d buffers were not released", live)
				}
				for _, d := range Compare(answers, want) {
					t.Logf("%-30s relative difference %.1e, cosine %.6f", d.Name, d.Relative, d.Cosine)
					if c.options.Fisher == config.Empirical &&
						slices.Contains([]string{"natural_mc_policy", "natural_dbqpg_policy", "uapg_natural_policy"},
							d.Name) {
						continue // the exact answers have the analytic matrix; see TestEmpiricalNaturalGradients
					}
					if d.Name == "uapg_vanilla_policy" || d.Name == "uapg_natural_policy" {
						if !(d.Cosine >= c.cosine) {
							t.Errorf("%s: cosine %.4f to the exact one, want %.2f", d.Name, d.Cosine, c.cosine)
						}
					} else if !(d.Relative <= tolerance(d.Name)) {
						t.Errorf("%s: relative difference %.2g, want at most %.0e", d.Name, d.Relative,
							tolerance(d.Name))
					}
				}
				for _, name := range want.Names() {
					if _, ok := answers[name]; strings.HasPrefix(name, "expect_") && !ok {
						t.Errorf("%s is not computed", name)
					}
				}
			})
		}
	}
}

// Answers are the same bits on one core and on several.
func TestSameBitsOnAnyNumberOfCores(t *testing.T) {
	want := golden(t, "hopper_gae")
	one, three := answer(t, cpu.New(1), want, Options{}), answer(t, cpu.New(3), want, Options{})
	for name, array := range one {
		if !slices.Equal(array.Floats, three[name].Floats) {
			t.Errorf("%s differs between one core and three", name)
		}
	}
}

// Natural gradients solve (UU'/n + damping I) d = g with the scores themselves.
func TestEmpiricalNaturalGradients(t *testing.T) {
	arrays := golden(t, "hopper_gae")
	x, err := Parse(arrays)
	if err != nil {
		t.Fatal(err)
	}
	answers := answer(t, cpu.New(2), arrays, Options{Fisher: config.Empirical})
	b := cpu.New(2)
	s := compute.NewScope(b)
	defer s.Release()
	u := scores(s, x)
	for _, name := range []string{"mc", "dbqpg", "dbqpg_completed"} {
		g, d := flatGradient(answers, x, name), flatGradient(answers, x, "natural_"+name)
		product := linop.Mul(s, u, linop.Mul(s, u, s.FromSlice(len(d), 1, d), true), false)
		left := compute.ToSlice(b, product)
		for i := range left {
			left[i] = left[i]/float64(x.Samples()) + x.Damping*d[i]
		}
		if e := relativeError(left, g); !(e <= 1e-8) {
			t.Errorf("natural_%s: G d is off by %.2g", name, e)
		}
	}
}

// With --noise the batch's own does not count, and completion matters: at the paper's noise
// the truncated kernel's plain gradient is another one.
func TestNoiseAndCompletion(t *testing.T) {
	arrays := golden(t, "hopper_gae")
	paper := answer(t, cpu.New(2), arrays, Options{Noise: 1e-4})
	arrays["noise"] = npz.Scalar(1e-4)
	own := answer(t, cpu.New(2), arrays, Options{})
	if a, b := paper["expect_mll"].Floats[0], own["expect_mll"].Floats[0]; a != b {
		t.Errorf("log likelihood %g by the option, %g by the batch", a, b)
	}
	x, err := Parse(arrays)
	if err != nil {
		t.Fatal(err)
	}
	plain, completed := flatGradient(own, x, "dbqpg"), flatGradient(own, x, "dbqpg_completed")
	if c := floats.Dot(plain, completed) / floats.Norm(plain, 2) / floats.Norm(completed, 2); !(c < 0.9) {
		t.Errorf("cosine %g between the plain and the completed gradient", c)
	}
}

// A batch too large for the exact decomposition: the golden batch many times over. Its
// scores have the same singular vectors on the parameters' side, so that Monte Carlo is
// the same exactly.
func TestLargeBatch(t *testing.T) {
	const copies = 6
	arrays := golden(t, "hopper_gae")
	want := answer(t, cpu.New(2), arrays, Options{})
	for _, name := range []string{"observations", "actions", "rewards", "targets"} {
		array := arrays[name]
		array.Shape = append([]int{}, array.Shape...)
		array.Shape[0] *= copies
		array.Floats = slices.Repeat(array.Floats, copies)
		arrays[name] = array
	}
	arrays["dones"] = npz.Of(slices.Repeat(arrays["dones"].Bools, copies), copies*400)
	got := answer(t, cpu.New(2), arrays, Options{Seed: 3})
	for _, d := range Compare(got, want) {
		switch d.Name {
		case "mc_policy", "natural_mc_policy":
			if d.Relative > 1e-6 {
				t.Errorf("%s: relative difference %.2g", d.Name, d.Relative)
			}
		case "dbqpg_policy": // the same direction, more certain of it
			if d.Cosine < 0.9 {
				t.Errorf("%s: cosine %.4f", d.Name, d.Cosine)
			}
		}
	}
	singular, exact := got["expect_singular_values"].Floats, want["expect_singular_values"].Floats
	if ratio := singular[0] / exact[0] / math.Sqrt(copies); math.Abs(ratio-1) > 0.02 {
		t.Errorf("the sketched leading singular value is %g of the exact one", ratio)
	}
}

// The moments at queries that are some of the batch's own samples are those in the batch,
// though their Fisher vectors come from their scores.
func TestQueries(t *testing.T) {
	for _, options := range []Options{{}, {Solver: config.ConjugateGradient}} {
		arrays := golden(t, "hopper_gae")
		o, a := arrays["observations"], arrays["actions"]
		const first, count = 100, 70
		arrays["query_observations"] = npz.Of(o.Floats[first*o.Shape[1]:(first+count)*o.Shape[1]], count, o.Shape[1])
		arrays["query_actions"] = npz.Of(a.Floats[first*a.Shape[1]:(first+count)*a.Shape[1]], count, a.Shape[1])
		opaque := computetest.Opaque(cpu.New(2))
		answers := answer(t, opaque, arrays, options)
		if live := opaque.Live(); live != 0 {
			t.Errorf("%d buffers were not released", live)
		}
		for _, name := range []string{"v_mean", "v_var", "a_mean", "a_var", "q_mean", "q_var"} {
			batch, queries := answers["expect_"+name].Floats, answers["expect_query_"+name].Floats
			if len(queries) != count {
				t.Fatalf("%s at %d queries", name, len(queries))
			}
			for i, x := range queries {
				if want := batch[first+i]; !(math.Abs(x-want) <= 1e-6*math.Abs(want)) {
					t.Errorf("%v: %s of sample %d is %g in the batch, %g as a query", options, name, first+i, want, x)
					break
				}
			}
		}
	}
}
