package critic

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/batched"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/state"
)

func each(t *testing.T, test func(t *testing.T, b compute.Backend)) {
	for _, b := range nntest.Backends() {
		t.Run(b.Name(), func(t *testing.T) { test(t, b) })
	}
}

// goldenParams returns the golden files' feature network and value head in flat order.
func goldenParams(t *testing.T, name string) []float64 {
	a := golden(t, name)
	var params []float64
	for _, array := range []string{
		"feature_w1", "feature_b1", "feature_w2", "feature_b2", "feature_w3", "feature_b3", "value_w", "value_b",
	} {
		params = append(params, a[array].Floats...)
	}
	return params
}

func TestGoldenValues(t *testing.T) {
	each(t, func(t *testing.T, b compute.Backend) {
		a := golden(t, "hopper_gae")
		s := compute.NewScope(b)
		defer s.Release()
		e := Evaluate(s, goldenParams(t, "hopper_gae"), s.FromSlice(400, 11, a["observations"].Floats))
		nntest.Near(t, "values", e.Values(), a["expect_values"].Floats, 1e-12)
	})
}

// The likelihood's gradient in the feature network's weights, through the process,
// the scaling of the features and the network.
func TestGoldenFeatureGradients(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		for _, b := range nntest.Backends()[1:] {
			a := golden(t, name)
			s := compute.NewScope(b)
			value := func(key string) float64 { return a[key].Floats[0] }
			n, o := a["observations"].Shape[0], a["observations"].Shape[1]
			observations := s.FromSlice(n, o, a["observations"].Floats)
			e := Evaluate(s, goldenParams(t, name), observations)
			posterior, err := gp.Direct{}.Fit(s,
				gp.Kernel{C1: value("c1"), C2: value("c2"), Hyper: gp.Hyper{
					Base: []float64{value("lengthscale")}, OutputScale: value("outputscale"),
					FisherVariance: value("fisher_variance"), Noise: value("noise"),
				}},
				gp.Data{
					Features: e.Features(), Fisher: fisherVectors(t, s, a, observations),
					Targets: s.FromSlice(n, 1, a["targets"].Floats),
				})
			if err != nil {
				t.Fatal(err)
			}
			features := s.New(n, 10)
			if _, err := posterior.Gradient(features); err != nil {
				t.Fatal(err)
			}
			got := e.FeatureGradient(features)
			var want []float64
			for _, array := range []string{"w1", "b1", "w2", "b2", "w3", "b3"} {
				want = append(want, a["expect_mll_grad_feature_"+array].Floats...)
			}
			nntest.Near(t, name, got, want, 1e-3)
			s.Release()
		}
	}
}

// fisherVectors returns V of a golden batch's scores.
func fisherVectors(t *testing.T, s *compute.Scope, a npz.Arrays, observations compute.Block) compute.Block {
	t.Helper()
	var params []float64
	for _, array := range []string{"w1", "b1", "w2", "b2", "w3", "b3", "log_std"} {
		params = append(params, a["policy_"+array].Floats...)
	}
	actions := a["actions"]
	shape := policy.Shape{Observation: observations.Cols, Action: actions.Shape[1], Hidden: policy.DefaultHidden()}
	g := batched.New(s, shape, params, observations)
	u := g.Scores(s, s.FromSlice(actions.Shape[0], actions.Shape[1], actions.Floats))
	svd, err := linop.ExactSVD(s, u, int(a["rank"].Floats[0]))
	if err != nil {
		t.Fatal(err)
	}
	return svd.V
}

// Both gradients against differences of what they are gradients of.
func TestGradientsAgreeWithFiniteDifferences(t *testing.T) {
	each(t, func(t *testing.T, b compute.Backend) {
		const n, o, step = 700, 3, 1e-6
		s := compute.NewScope(b)
		defer s.Release()
		rng := rand.New(rand.NewPCG(3, 0))
		params := Value(o).Init(rng)
		observations := s.FromSlice(n, o, random(rng, n*o))
		returns, weights := random(rng, n), s.FromSlice(n, 10, random(rng, 10*n))
		at := func(i int, h float64) (loss, weighted float64) {
			moved := append([]float64(nil), params...)
			moved[i] += h
			e := Evaluate(s, moved, observations)
			loss, _ = e.lossGradient(returns)
			return loss, b.Dot(e.Features(), weights)
		}
		e := Evaluate(s, params, observations)
		_, ofLoss := e.lossGradient(returns)
		ofFeatures := e.FeatureGradient(weights)
		head := Features(o).NumParams()
		for _, i := range []int{0, 100, 200, 1000, 3000, head - 1, head, head + 10} {
			lossUp, weightedUp := at(i, step)
			lossDown, weightedDown := at(i, -step)
			if got, want := (lossUp-lossDown)/(2*step), ofLoss[i]; math.Abs(got-want) > 1e-7 {
				t.Errorf("loss, parameter %d: difference quotient %v, gradient %v", i, got, want)
			}
			if i >= head {
				continue
			}
			if got, want := (weightedUp-weightedDown)/(2*step), ofFeatures[i]; math.Abs(got-want) > 1e-5 {
				t.Errorf("features, parameter %d: difference quotient %v, gradient %v", i, got, want)
			}
		}
	})
}

func TestLossIsTheMeanSquare(t *testing.T) {
	each(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		rng := rand.New(rand.NewPCG(4, 0))
		e := New(2, Kind{}, rng).Evaluate(s, s.FromSlice(5, 2, random(rng, 10)))
		returns, want := random(rng, 5), 0.0
		for i, v := range e.Values() {
			want += (v - returns[i]) * (v - returns[i]) / 5
		}
		if got, _ := e.lossGradient(returns); math.Abs(got-want) > 1e-14 {
			t.Errorf("loss %v, want %v", got, want)
		}
	})
}

// problem is a batch with something to learn.
type problem struct {
	observations compute.Block
	returns      []float64
	data         gp.Data
}

func newProblem(s *compute.Scope, n int, rng *rand.Rand) problem {
	x := random(rng, 3*n)
	p := problem{observations: s.FromSlice(n, 3, x)}
	for i := range n {
		p.returns = append(p.returns, math.Sin(x[3*i])+x[3*i+1]*x[3*i+2]+0.1*rng.NormFloat64())
	}
	v := random(rng, 2*n)
	for i := range v {
		v[i] /= math.Sqrt(float64(n))
	}
	p.data = gp.Data{Fisher: s.FromSlice(n, 2, v), Targets: s.FromSlice(n, 1, p.returns)}
	return p
}

// fit conditions the process on the problem under the critic's state.
func (c *Critic) fit(t *testing.T, s *compute.Scope, p problem) (*Evaluation, gp.Posterior) {
	t.Helper()
	e := c.Embed(s, p.observations)
	data := p.data
	data.Features = e.Features()
	posterior, err := gp.Direct{}.Fit(s, gp.Kernel{Base: c.Base(), C1: 1, C2: 5e-5, Hyper: c.Hyper()}, data)
	if err != nil {
		t.Fatal(err)
	}
	return e, posterior
}

// update takes the two steps of one batch.
func (c *Critic) update(t *testing.T, p problem, b compute.Backend) (loss, likelihood float64) {
	t.Helper()
	s := compute.NewScope(b)
	defer s.Release()
	loss, err := c.StepValue(c.Evaluate(s, p.observations), p.returns)
	if err != nil {
		t.Fatal(err)
	}
	e, posterior := c.fit(t, s, p)
	features := s.New(p.observations.Rows, e.Features().Cols)
	hyper, err := posterior.Gradient(features)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StepProcess(e, features, hyper); err != nil {
		t.Fatal(err)
	}
	return loss, logLikelihood(t, posterior)
}

func logLikelihood(t *testing.T, p gp.Posterior) float64 {
	t.Helper()
	l, err := p.LogLikelihood()
	if err != nil {
		t.Fatal(err)
	}
	return l.Value
}

func TestStepsImproveBoth(t *testing.T) {
	each(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		rng := rand.New(rand.NewPCG(5, 0))
		p := newProblem(s, 60, rng)
		c := New(3, Kind{}, rng)
		firstLoss, firstLikelihood := c.update(t, p, b)
		var loss, likelihood float64
		for range 10 {
			loss, likelihood = c.update(t, p, b)
		}
		if loss >= firstLoss || likelihood <= firstLikelihood {
			t.Errorf("value loss from %v to %v, log likelihood from %v to %v", firstLoss, loss, firstLikelihood,
				likelihood)
		}
	})
}

// forEachKernel runs a test with a base kernel of each set of hyperparameters: all that
// the critic knows of one.
func forEachKernel(t *testing.T, test func(*testing.T, *kernels.Kernel)) {
	seen := map[string]bool{}
	for _, name := range kernels.Names() {
		k, err := kernels.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if hyper := fmt.Sprint(k.Hyperparameters()); !seen[hyper] {
			seen[hyper] = true
			t.Run(name, func(t *testing.T) { test(t, k) })
		}
	}
}

// The process's step follows the gradient of the likelihood in the raw parameters,
// here taken from differences of the likelihood itself: Adam's first step is the
// learning rate long and points uphill.
func TestFirstProcessStepPointsUphill(t *testing.T) { forEachKernel(t, testFirstProcessStep) }

func testFirstProcessStep(t *testing.T, base *kernels.Kernel) {
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	rng := rand.New(rand.NewPCG(6, 0))
	p := newProblem(s, 150, rng)
	c := New(3, Kind{Base: base}, rng)
	if got, want := len(c.raw), len(base.Hyperparameters())+3; got != want {
		t.Fatalf("%d hyperparameters, want %d", got, want)
	}
	const step = 1e-4
	want := make([]float64, len(c.raw))
	for i := range want {
		at := func(h float64) float64 {
			moved := *c
			moved.raw = slices.Clone(c.raw)
			moved.raw[i] += h
			_, posterior := moved.fit(t, s, p)
			return logLikelihood(t, posterior)
		}
		want[i] = learningRate * math.Copysign(1, at(step)-at(-step))
	}
	before := append([]float64(nil), c.params...)
	e, posterior := c.fit(t, s, p)
	features := s.New(150, 10)
	hyper, err := posterior.Gradient(features)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StepProcess(e, features, hyper); err != nil {
		t.Fatal(err)
	}
	for i, got := range c.raw {
		if math.Abs(got-want[i]) > 1e-3*learningRate {
			t.Errorf("hyperparameter %d moved by %v, want %v", i, got, want[i])
		}
	}
	phi := Features(3).NumParams()
	for i, v := range c.params {
		if (v != before[i]) != (i < phi) {
			t.Fatalf("parameter %d of %d (features %d): %v, was %v", i, len(c.params), phi, v, before[i])
		}
	}
}

// With raw features the process sees the observations; its steps improve it by the
// hyperparameters alone, and leave the network to the value function.
func TestRawFeatures(t *testing.T) {
	each(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		rng := rand.New(rand.NewPCG(12, 0))
		p := newProblem(s, 60, rng)
		c := New(3, Kind{RawFeatures: true}, rng)
		nntest.Near(t, "features", compute.ToSlice(b, c.Embed(s, p.observations).Features()),
			compute.ToSlice(b, p.observations), 0)
		before, first := append([]float64(nil), c.params...), math.NaN()
		for i := range 10 {
			e, posterior := c.fit(t, s, p)
			if i == 0 {
				first = logLikelihood(t, posterior)
			}
			hyper, err := posterior.Gradient(compute.Block{})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.StepProcess(e, compute.Block{}, hyper); err != nil {
				t.Fatal(err)
			}
		}
		_, posterior := c.fit(t, s, p)
		if last := logLikelihood(t, posterior); !(last > first) {
			t.Errorf("log likelihood from %v to %v", first, last)
		}
		for i, v := range c.params {
			if v != before[i] {
				t.Fatalf("parameter %d of the network moved", i)
			}
		}
		if _, err := c.StepValue(c.Evaluate(s, p.observations), p.returns); err != nil || c.params[0] == before[0] {
			t.Errorf("the value step: parameter from %v to %v, error %v", before[0], c.params[0], err)
		}
	})
}

func TestInitialHyperparameters(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	ln2 := math.Ln2
	forEachKernel(t, func(t *testing.T, base *kernels.Kernel) {
		names := base.Hyperparameters()
		want := gp.Hyper{Base: make([]float64, len(names)), OutputScale: ln2, FisherVariance: ln2, Noise: 1e-4 + ln2}
		for i := range want.Base {
			want.Base[i] = ln2
		}
		c := New(3, Kind{Base: base}, rng)
		if got := c.Hyper(); !reflect.DeepEqual(got, want) {
			t.Errorf("learned: %+v, want %+v", got, want)
		}
		if got, has := c.Lengthscale(), slices.Contains(names, "lengthscale"); has && got != ln2 || !has &&
			!math.IsNaN(got) {
			t.Errorf("lengthscale %v, hyperparameters %v", got, names)
		}
	})
	c := New(3, Kind{Noise: NoiseFloor}, rng)
	if got := c.Hyper().Noise; got != 1e-4 || c.Base().Name() != "rbf" {
		t.Errorf("fixed noise: noise %v, default base kernel %v", got, c.Base())
	}
	s := compute.NewScope(nntest.Backends()[2])
	defer s.Release()
	p := newProblem(s, 50, rng)
	features := s.FromSlice(50, 10, random(rng, 500))
	if err := c.StepProcess(c.Evaluate(s, p.observations), features,
		gp.Hyper{Base: []float64{1}, Noise: 1}); err != nil {
		t.Fatal(err)
	}
	if c.Hyper().Noise != 1e-4 || c.raw[3] != 0 || c.raw[0] == 0 {
		t.Errorf("fixed noise after a step: raw %v", c.raw)
	}
	fixed := New(3, Kind{FisherVariance: 1}, rng)
	if err := fixed.StepProcess(fixed.Evaluate(s, p.observations), features,
		gp.Hyper{Base: []float64{1}, FisherVariance: 1, Noise: 1}); err != nil {
		t.Fatal(err)
	}
	if h := fixed.Hyper(); h.FisherVariance != 1 || h.Noise == 1e-4+ln2 || h.Base[0] == ln2 {
		t.Errorf("fixed Fisher variance after a step: %+v", h)
	}
	defer func() {
		if got, want := fmt.Sprint(recover()),
			"2 hyperparameters of the base kernel rbf"; !strings.Contains(got, want) {
			t.Errorf("another kernel's gradient: panic %q, want %q", got, want)
		}
	}()
	_ = c.StepProcess(c.Evaluate(s, p.observations), features, gp.Hyper{Base: []float64{1, 1}})
}

func TestSoftplus(t *testing.T) {
	for _, x := range []float64{-800, -30, -1, 0, 0.5, 40, 800} {
		want := math.Log1p(math.Exp(x))
		if x > 100 {
			want = x
		}
		if got := softplus(x); math.Abs(got-want) > 1e-15*want {
			t.Errorf("softplus(%v) = %v, want %v", x, got, want)
		}
		const h = 1e-5
		if got, want := sigmoid(x), (softplus(x+h)-softplus(x-h))/(2*h); math.Abs(got-want) > 1e-6 {
			t.Errorf("softplus'(%v) = %v, want %v", x, got, want)
		}
	}
}

// A restored critic continues bit-identically to the one that was saved.
func TestRestoredCriticContinues(t *testing.T) {
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	rng := rand.New(rand.NewPCG(8, 0))
	p := newProblem(s, 100, rng)
	for _, kind := range []Kind{
		{}, {Noise: NoiseFloor}, {FisherVariance: 1}, {Noise: NoiseFloor, FisherVariance: 1}, {RawFeatures: true},
	} {
		c := New(3, kind, rng)
		for range 3 {
			c.update(t, p, b)
		}
		restored := New(3, kind, rng)
		if err := state.Restore(state.Save(c.Visit), restored.Visit); err != nil {
			t.Fatal(err)
		}
		c.update(t, p, b)
		restored.update(t, p, b)
		got, want := state.Save(restored.Visit), state.Save(c.Visit)
		for name, x := range want {
			for i, v := range x {
				if got[name][i] != v {
					t.Fatalf("%+v: %s element %d is %v, want %v", kind, name, i, got[name][i], v)
				}
			}
		}
	}
}

func TestRefusedStateChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 0))
	other := New(3, Kind{}, rng)
	other.value.Step(other.params, make([]float64, len(other.params)))
	for name, want := range map[string]string{
		"params": "params", "raw": "raw", "value.first": "value", "process.steps": "process",
		"process.second": "process",
	} {
		c, s := New(3, Kind{}, rand.New(rand.NewPCG(10, 0))), state.Save(other.Visit)
		before := append([]float64(nil), c.params...)
		s[name] = s[name][1:]
		if err := state.Restore(s, c.Visit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s too short: error %v", name, err)
		}
		if c.params[0] != before[0] || state.Save(c.value.Visit)["steps"][0] != 0 {
			t.Errorf("%s too short: the critic was changed", name)
		}
	}
}

func TestNotFiniteReturnsTakeNoStep(t *testing.T) {
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	rng := rand.New(rand.NewPCG(11, 0))
	p := newProblem(s, 20, rng)
	c := New(3, Kind{}, rng)
	before := append([]float64(nil), c.params...)
	p.returns[7] = math.NaN()
	var notFinite *optim.NotFiniteError
	if _, err := c.StepValue(c.Evaluate(s, p.observations), p.returns); !errors.As(err, &notFinite) {
		t.Errorf("value step: error %v", err)
	}
	if err := c.StepProcess(c.Evaluate(s, p.observations), s.FromSlice(20, 10, random(rng, 200)),
		gp.Hyper{Base: []float64{0}, Noise: math.Inf(1)}); !errors.As(err, &notFinite) {
		t.Errorf("process step: error %v", err)
	}
	for i, v := range c.params {
		if v != before[i] {
			t.Fatalf("parameter %d moved", i)
		}
	}
}

// SetHyper is the inverse of Hyper, from the floor of the noise to far beyond what is learned.
func TestSetHyper(t *testing.T) {
	c := New(3, Kind{Converge: true}, rand.New(rand.NewPCG(1, 0)))
	for _, h := range []gp.Hyper{
		{Base: []float64{0.1}, OutputScale: 1e-8, FisherVariance: 1e4, Noise: 2 * NoiseFloor},
		{Base: []float64{3}, OutputScale: 80, FisherVariance: 0.3, Noise: 0.9},
	} {
		c.SetHyper(h)
		got := c.Hyper()
		for _, pair := range [][2]float64{
			{got.Base[0], h.Base[0]}, {got.OutputScale, h.OutputScale}, {got.FisherVariance, h.FisherVariance},
			{got.Noise, h.Noise},
		} {
			if !(math.Abs(pair[0]-pair[1]) <= 1e-6*pair[1]) {
				t.Errorf("%+v is %+v", h, got)
				break
			}
		}
	}
	c.SetHyper(gp.Hyper{Base: []float64{1}, OutputScale: 1, FisherVariance: 1, Noise: NoiseFloor / 2})
	if noise := c.Hyper().Noise; !(noise >= NoiseFloor && noise < 1.001*NoiseFloor) {
		t.Errorf("below the floor the noise is %g", noise)
	}
	defer func() {
		if recover() == nil {
			t.Error("fixed noise is set")
		}
	}()
	New(3, Kind{Noise: 1}, rand.New(rand.NewPCG(1, 0))).SetHyper(
		gp.Hyper{Base: []float64{1}, OutputScale: 1, FisherVariance: 1, Noise: 1})
}
