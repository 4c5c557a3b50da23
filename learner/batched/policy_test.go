package batched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/policy"
)

// fixture is a small policy over a batch that spans several panels, on a backend
// and on the host.
type fixture struct {
	backend                       compute.Backend
	scope                         *compute.Scope
	shape                         policy.Shape
	samples                       int
	params, observations, actions []float64
	policy                        *Policy
	actionBlock                   compute.Block
}

func newFixture(b compute.Backend, shape policy.Shape, samples int, seed uint64) fixture {
	rng := rand.New(rand.NewPCG(seed, 0))
	f := fixture{backend: b, scope: compute.NewScope(b), shape: shape, samples: samples}
	f.params = normals(shape.NumParams(), rng)
	f.observations = normals(samples*shape.Observation, rng)
	f.actions = normals(samples*shape.Action, rng)
	if shape.Choices != nil {
		for i := range f.actions {
			f.actions[i] = float64(rng.IntN(shape.Choices[i%shape.Action]))
		}
	}
	f.policy = f.at(f.params)
	f.actionBlock = f.scope.FromSlice(samples, shape.Action, f.actions)
	return f
}

// at returns the policy with other parameters on the same batch.
func (f fixture) at(params []float64) *Policy {
	return New(f.scope, f.shape, params,
		f.scope.FromSlice(f.samples, f.shape.Observation, f.observations))
}

func each(t *testing.T, test func(t *testing.T, f fixture)) {
	for _, b := range nntest.Backends() {
		for name, choices := range map[string][]int{"gaussian": nil, "categorical": {4, 2}} {
			t.Run(name+"/"+b.Name(), func(t *testing.T) {
				f := newFixture(b, policy.Shape{Observation: 3, Action: 2, Hidden: []int{5, 4}, Choices: choices}, 1100, 1)
				defer f.scope.Release()
				test(t, f)
			})
		}
	}
}

func (f fixture) logStd() []float64 { return f.params[len(f.params)-f.shape.Action:] }

func (f fixture) outputsAt(params []float64, i int) []float64 {
	o := f.shape.Observation
	mlp := f.shape.Network()
	return nntest.Forward(mlp, params[:mlp.NumParams()], f.observations[i*o:(i+1)*o])
}

// eachAction calls of for each action that sample i may take, with its probability: a discrete policy's.
func (f fixture) eachAction(params []float64, i int, of func(action []float64, probability float64)) {
	var add func(action []float64, probability float64, logits []float64)
	add = func(action []float64, probability float64, logits []float64) {
		if len(action) == f.shape.Action {
			of(action, probability)
			return
		}
		size, sum := f.shape.Choices[len(action)], 0.0
		for _, z := range logits[:size] {
			sum += math.Exp(z)
		}
		for j, z := range logits[:size] {
			add(append(slices.Clone(action), float64(j)), probability*math.Exp(z)/sum, logits[size:])
		}
	}
	add(nil, 1, f.outputsAt(params, i))
}

// probabilities returns those of sample i's actions, all of them in one order.
func (f fixture) probabilities(params []float64, i int) (all []float64) {
	f.eachAction(params, i, func(_ []float64, p float64) { all = append(all, p) })
	return all
}

// logProbTwin returns the sum over the dimensions of log N(x; mu, std²), or the logarithm of the action's probability.
func (f fixture) logProbTwin(params []float64, i int) float64 {
	a := f.shape.Action
	sum := 0.0
	if f.shape.Choices != nil {
		f.eachAction(params, i, func(action []float64, p float64) {
			if slices.Equal(action, f.actions[i*a:(i+1)*a]) {
				sum = math.Log(p)
			}
		})
		return sum
	}
	for j, mu := range f.outputsAt(params, i) {
		std := math.Exp(params[len(params)-a+j])
		z := (f.actions[i*a+j] - mu) / std
		sum += math.Log(math.Exp(-z*z/2) / (std * math.Sqrt(2*math.Pi)))
	}
	return sum
}

// The policy that acts and the policy that learns are the same.
func TestActorAgreesWithBlocks(t *testing.T) {
	for _, b := range nntest.Backends() {
		shape := policy.Shape{Observation: 11, Action: 3, Hidden: policy.DefaultHidden()}
		rng := rand.New(rand.NewPCG(14, 0))
		params, n := shape.Init(rng, nil), policy.Identity(shape.Observation, 5)
		for i := range n.Mean {
			n.Mean[i], n.Std[i] = rng.NormFloat64(), rng.ExpFloat64()
		}
		for i := len(params) - shape.Action; i < len(params); i++ {
			params[i] = 0.3 * rng.NormFloat64()
		}
		actor, err := policy.NewActor(shape, params, n)
		if err != nil {
			t.Fatal(err)
		}
		const samples = 600
		raw, normalised := make([]float32, samples*11), make([]float64, samples*11)
		for i := range raw {
			raw[i] = float32(2 * rng.NormFloat64())
		}
		n.Apply(normalised, raw)
		s := compute.NewScope(b)
		g := New(s, shape, params, s.FromSlice(samples, 11, normalised))
		got := compute.ToSlice(b, g.Outputs())
		for i := range samples {
			nntest.Near(t, b.Name(), got[3*i:3*i+3], actor.Outputs(raw[11*i:11*i+11]), 1e-12)
		}
		s.Release()
	}
}

// The policy on a part of a batch is that on the part alone.
func TestFirst(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		const n = 300
		first, actions := f.policy.First(n), f.actionBlock.RowRange(0, n)
		f.samples, f.observations = n, f.observations[:n*f.shape.Observation]
		alone := f.at(f.params)
		if first.Samples() != n {
			t.Errorf("%d samples", first.Samples())
		}
		nntest.Near(t, "log-probability", compute.ToSlice(f.backend, first.LogProb(f.scope, actions)),
			compute.ToSlice(f.backend, alone.LogProb(f.scope, actions)), 1e-14)
		direction := f.scope.FromSlice(len(f.params), 1, f.params)
		got, want := f.scope.New(len(f.params), 1), f.scope.New(len(f.params), 1)
		first.Fisher(0.1).MulTo(got, direction, false)
		alone.Fisher(0.1).MulTo(want, direction, false)
		nntest.Near(t, "Fisher product", compute.ToSlice(f.backend, got), compute.ToSlice(f.backend, want), 1e-14)
	})
}

// The twins know nothing of inputs that are zero at every observation, which the policy is evaluated without.
func TestWithoutInputsThatAreZero(t *testing.T) {
	for _, b := range nntest.Backends() {
		for _, zero := range [][]int{{0, 3, 4}, {5}, {0, 1, 2, 3, 4, 5}} {
			f := newFixture(b, policy.Shape{Observation: 6, Action: 2, Hidden: []int{5, 4}}, 600, 1)
			everywhere := slices.Clone(f.observations)
			for i := range f.samples {
				for _, j := range zero {
					f.observations[6*i+j] = 0
				}
			}
			f.policy = f.at(f.params)
			p := len(f.params) - 5*min(len(zero), 5)
			u := f.policy.Scores(f.scope, f.actionBlock)
			if rows, _ := u.Dims(); rows != p {
				t.Fatalf("scores of %d parameters, want %d of %d", rows, p, len(f.params))
			}
			multiply := func(o linop.Operator, x []float64) []float64 {
				return f.policy.Expand(compute.ToSlice(b,
					linop.Mul(f.scope, o, f.scope.FromSlice(len(x), 1, x), false)))
			}
			rng := rand.New(rand.NewPCG(2, 0))
			w := normals(f.samples, rng)
			_, gradient := logDensity(f.shape, f.params, f.observations, f.actions, w)
			nntest.Near(t, b.Name()+": gradient", multiply(u, w), gradient, 1e-12)
			x := normals(p, rng)
			nntest.Near(t, b.Name()+": Fisher product", multiply(f.policy.Fisher(0), x), f.fisherTwin(0, f.policy.Expand(x)),
				1e-12)
			if other := normals(len(f.params),
				rng); f.policy.KL(f.policy.At(f.scope, other)) != f.policy.KL(f.at(other)) {
				t.Errorf("%s: the policy with other parameters is not that made anew", b.Name())
			}

			// Scores elsewhere, where these inputs matter.
			further := f.policy.ScoresAt(f.scope, f.params, f.scope.FromSlice(f.samples, 6, everywhere), f.actionBlock)
			_, want := logDensity(f.shape, f.params, everywhere, f.actions, w)
			for k := range want {
				if !slices.Contains(f.policy.params, k) {
					want[k] = 0
				}
			}
			nntest.Near(t, b.Name()+": further scores", multiply(further, w), want, 1e-12)
			f.scope.Release()
		}
	}
}

func TestLogProbAgreesWithTwin(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		var want []float64
		for i := range f.samples {
			want = append(want, f.logProbTwin(f.params, i))
		}
		nntest.Near(t, "log-probability", compute.ToSlice(f.backend, f.policy.LogProb(f.scope, f.actionBlock)), want, 1e-12)
	})
}

// The entropy is the expected surprise: of a Gaussian, -log pi at the mean plus 1/2 a dimension.
func TestEntropy(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		want := 0.0
		if f.shape.Choices == nil {
			atMean := compute.ToSlice(f.backend, f.policy.LogProb(f.scope, f.policy.Outputs()))
			want = -atMean[0] + 0.5*float64(f.shape.Action)
		} else {
			for i := range f.samples {
				for _, p := range f.probabilities(f.params, i) {
					want -= p * math.Log(p) / float64(f.samples)
				}
			}
		}
		got, most := f.policy.Entropy(), math.Log(8)
		if math.Abs(got-want) > 1e-12 || f.shape.Choices != nil && !(got > 0 && got < most) {
			t.Errorf("entropy %v, want %v", got, want)
		}
	})
}

func TestKLAgreesWithTwin(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		other := normals(len(f.params), rand.New(rand.NewPCG(2, 0)))
		got := f.policy.KL(f.at(other))
		want := 0.0
		for i := range f.samples {
			if f.shape.Choices != nil {
				p, q := f.probabilities(f.params, i), f.probabilities(other, i)
				for j := range p {
					want += p[j] * math.Log(p[j]/q[j]) / float64(f.samples)
				}
				continue
			}
			mu, mu1 := f.outputsAt(f.params, i), f.outputsAt(other, i)
			for j := range mu {
				std, std1 := math.Exp(f.logStd()[j]), math.Exp(other[len(other)-f.shape.Action+j])
				want += (math.Log(std1/std) + (std*std+(mu[j]-mu1[j])*(mu[j]-mu1[j]))/(2*std1*std1) - 0.5) / float64(
					f.samples)
			}
		}
		if math.Abs(got-want) > 1e-12*want {
			t.Errorf("KL %v, want %v", got, want)
		}
		if self := f.policy.KL(f.policy); self != 0 {
			t.Errorf("KL of a policy to itself %v", self)
		}
		for step := 1.; step > 1e-20; step /= 10 { // of which rounding is all in the end
			for k := range other {
				other[k] = f.params[k] * (1 + step)
			}
			if kl := f.policy.KL(f.at(other)); !(kl >= 0) {
				t.Errorf("KL %v at a distance of %v", kl, step)
			}
		}
	})
}

// fisherTwin returns G, with every Jacobian formed one sample at a time.
func (f fixture) fisherTwin(damping float64, x []float64) []float64 {
	mlp := f.shape.Network()
	p, o := mlp.NumParams(), f.shape.Observation
	y := make([]float64, len(x))
	for i := range f.samples {
		jacobian := nntest.Jacobian(mlp, f.params[:p], f.observations[i*o:(i+1)*o])
		moved := make([]float64, len(jacobian))
		for j, row := range jacobian {
			for k, v := range row {
				moved[j] += v * x[k] / float64(f.samples)
			}
		}
		for j, v := range f.metricTwin(i, moved) {
			for k, d := range jacobian[j] {
				y[k] += d * v
			}
		}
	}
	for k := p; k < len(x); k++ {
		y[k] = 2 * x[k]
	}
	for k := range x {
		y[k] += damping * x[k]
	}
	return y
}

// metricTwin multiplies x by the Fisher matrix of sample i's distribution in the outputs: the precisions, or the
// covariance of the choices' indicators.
func (f fixture) metricTwin(i int, x []float64) []float64 {
	y := make([]float64, len(x))
	if f.shape.Choices == nil {
		for j, v := range x {
			y[j] = v / math.Exp(2*f.logStd()[j])
		}
		return y
	}
	mean := make([]float64, len(x))
	var indicators [][]float64
	f.eachAction(f.params, i, func(action []float64, p float64) {
		indicator, from := make([]float64, len(x)), 0
		for j, size := range f.shape.Choices {
			indicator[from+int(action[j])] = 1
			mean[from+int(action[j])] += p
			from += size
		}
		indicators = append(indicators, indicator)
	})
	for a, p := range f.probabilities(f.params, i) {
		along := 0.0
		for j, v := range indicators[a] {
			along += (v - mean[j]) * x[j]
		}
		for j, v := range indicators[a] {
			y[j] += p * (v - mean[j]) * along
		}
	}
	return y
}

func TestFisherAgreesWithDenseTwin(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		p, columns := len(f.params), 3
		x := normals(p*columns, rand.New(rand.NewPCG(3, 0)))
		dst := f.scope.New(p, columns)
		fisher := f.policy.Fisher(0.1)
		if rows, cols := fisher.Dims(); rows != p || cols != p {
			t.Errorf("dimensions %d × %d, want %d", rows, cols, p)
		}
		block, compressed := f.scope.FromSlice(p, columns, x), f.scope.New(columns, columns)
		fisher.MulTo(dst, block, false)
		fisher.Compress(compressed, block)
		for j := range columns {
			column := make([]float64, p)
			for k := range column {
				column[k] = x[k*columns+j]
			}
			product := f.fisherTwin(0.1, column)
			nntest.Near(t, "product", compute.ToSlice(f.backend, dst.Col(j)), product, 1e-12)
			want := make([]float64, columns)
			for k, v := range x {
				want[k%columns] += v * product[k/columns]
			}
			nntest.Near(t, "compressed", compute.ToSlice(f.backend, compressed.Row(j)), want, 1e-12)
		}
	})
}

// Half the Fisher matrix's quadratic form is the KL divergence of a small step.
func TestFisherIsTheCurvatureOfKL(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		const step = 1e-4
		direction := normals(len(f.params), rand.New(rand.NewPCG(4, 0)))
		moved := make([]float64, len(f.params))
		for k, v := range direction {
			moved[k] = f.params[k] + step*v
		}
		x, y := f.scope.FromSlice(len(direction), 1, direction), f.scope.New(len(direction), 1)
		f.policy.Fisher(0).MulTo(y, x, false)
		got, want := f.policy.KL(f.at(moved))/(step*step), 0.5*f.backend.Dot(x, y)
		if math.Abs(got-want) > 1e-2*want {
			t.Errorf("KL over step² %v, x'Gx/2 %v", got, want)
		}
	})
}

// gradient returns U w.
func (f fixture) gradient(w []float64) []float64 {
	u := f.policy.Scores(f.scope, f.actionBlock)
	dst := f.scope.New(len(f.params), 1)
	u.MulTo(dst, f.scope.FromSlice(f.samples, 1, w), false)
	return compute.ToSlice(f.backend, dst)
}

// Column i of U is the gradient of one sample's log-probability.
func TestScoresAgreeWithFiniteDifferences(t *testing.T) {
	const step = 1e-6
	each(t, func(t *testing.T, f fixture) {
		for _, i := range []int{0, 600, f.samples - 1} {
			unit := make([]float64, f.samples)
			unit[i] = 1
			want := make([]float64, len(f.params))
			for k := range want {
				p := append([]float64(nil), f.params...)
				p[k] = f.params[k] + step
				up := f.logProbTwin(p, i)
				p[k] = f.params[k] - step
				want[k] = (up - f.logProbTwin(p, i)) / (2 * step)
			}
			nntest.Near(t, "score", f.gradient(unit), want, 1e-6)
		}
	})
}

func TestSurrogate(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		w := normals(f.samples, rand.New(rand.NewPCG(5, 0)))
		weights := f.scope.FromSlice(f.samples, 1, w)
		reference := f.policy.LogProb(f.scope, f.actionBlock)
		if got := f.policy.Surrogate(f.actionBlock, weights, reference); got != 0 {
			t.Errorf("surrogate at its own policy %v", got)
		}
		other := append([]float64(nil), f.params...)
		other[3] += 0.1
		other[len(other)-1] -= 0.2
		want := 0.0
		for i := range f.samples {
			want += w[i] * (math.Exp(f.logProbTwin(other, i)-f.logProbTwin(f.params, i)) - 1)
		}
		if got := f.at(other).Surrogate(f.actionBlock, weights, reference); math.Abs(got-want) > 1e-10*math.Abs(want) {
			t.Errorf("surrogate %v, want %v", got, want)
		}
		// Its gradient at the sampling policy is U w.
		const step = 1e-5
		gradient := f.gradient(w)
		for _, k := range []int{0, 17, 22, 40, len(f.params) - 2, len(f.params) - 1} {
			at := func(h float64) float64 {
				p := append([]float64(nil), f.params...)
				p[k] += h
				return f.at(p).Surrogate(f.actionBlock, weights, reference)
			}
			if got := (at(step) - at(-step)) / (2 * step); math.Abs(got-gradient[k]) > 1e-4*math.Abs(gradient[k])+1e-6 {
				t.Errorf("parameter %d: difference quotient %v, gradient %v", k, got, gradient[k])
			}
		}
	})
}

// golden returns a batch with its exact answers.
func golden(t *testing.T, b compute.Backend, name string) (fixture, npz.Arrays) {
	t.Helper()
	arrays, err := npz.ReadFile("../../estimators/testdata/" + name + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	n, o, a := arrays["observations"].Shape[0], arrays["observations"].Shape[1], arrays["actions"].Shape[1]
	f := fixture{
		backend: b, scope: compute.NewScope(b),
		shape: policy.Shape{Observation: o, Action: a, Hidden: policy.DefaultHidden()}, samples: n,
		observations: arrays["observations"].Floats, actions: arrays["actions"].Floats, params: flat(arrays, "policy_"),
	}
	f.policy = f.at(f.params)
	f.actionBlock = f.scope.FromSlice(n, a, f.actions)
	return f, arrays
}

// flat joins one array a policy parameter in the flat order.
func flat(arrays npz.Arrays, prefix string) []float64 {
	var params []float64
	for _, name := range []string{"w1", "b1", "w2", "b2", "w3", "b3", "log_std"} {
		params = append(params, arrays[prefix+name].Floats...)
	}
	return params
}

func TestGoldenGradients(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		for _, b := range nntest.Backends() {
			f, arrays := golden(t, b, name)
			w := make([]float64, f.samples)
			for i, y := range arrays["targets"].Floats {
				w[i] = y / float64(f.samples)
			}
			nntest.Near(t, name+": Monte Carlo", f.gradient(w), flat(arrays, "expect_mc_policy_"), 1e-10)
			// G times the natural gradient is the gradient.
			p := len(f.params)
			for _, estimate := range []string{"mc", "dbqpg"} {
				natural := f.scope.FromSlice(p, 1, flat(arrays, "expect_natural_"+estimate+"_policy_"))
				product := f.scope.New(p, 1)
				f.policy.Fisher(arrays["damping"].Floats[0]).MulTo(product, natural, false)
				nntest.Near(t, name+": "+estimate, compute.ToSlice(b, product), flat(arrays, "expect_"+estimate+"_policy_"),
					1e-10)
			}
			f.scope.Release()
		}
	}
}
