package critic

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gorgonia.org/gorgonia"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/gorgoniatest"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/state"
)

// lambdaReturnTwin is the definition: the returns over 1, 2, ... steps of an episode whose last step is followed by the
// value bootstrap, the k-step one (1-lambda) lambda^(k-1) times and the one over all steps with the weight that is
// left.
func lambdaReturnTwin(rewards, values []float64, t int, bootstrap, gamma, lambda float64) float64 {
	v := append(slices.Clone(values), bootstrap)
	sum, left := 0.0, 1.0
	for end := t + 1; end <= len(rewards); end++ {
		weight := (1 - lambda) * math.Pow(lambda, float64(end-t-1))
		if end == len(rewards) {
			weight = left
		}
		left -= weight
		sum += weight * returnTwin(rewards[:end], t, v[end], gamma)
	}
	return sum
}

func TestLambdaReturnsAgreeWithTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 0))
	for _, lambda := range []float64{0, 0.3, 0.95, 1} {
		for _, bootstrap := range [][]float64{nil, {0, 3, -2, 5, 0}} {
			e := Trajectories{Rewards: random(rng, 32), Lengths: []int{4, 1, 7, 0, 20}, Bootstrap: bootstrap}
			values := random(rng, 32)
			got, start := e.LambdaReturns(values, 0.9, lambda), 0
			for i, length := range e.Lengths {
				after := 0.0
				if bootstrap != nil {
					after = bootstrap[i]
				}
				for step := range length {
					want := lambdaReturnTwin(e.Rewards[start:start+length], values[start:start+length], step, after,
						0.9, lambda)
					if math.Abs(got[start+step]-want) > 1e-12 {
						t.Errorf("lambda %v: return %d is %v, want %v", lambda, start+step, got[start+step], want)
					}
				}
				start += length
			}
		}
	}
}

// The running moments are those of all targets so far, each batch with its weight, in two passes: for the first ten
// batches of one size, the moments of their concatenation.
func TestMomentsAgreeWithTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 0))
	var m moments
	var weights []float64 // of the batches
	var batches [][]float64
	for i := range 25 {
		batch := random(rng, 7)
		floats.Scale(rng.ExpFloat64(), batch)
		floats.AddConst(1e6+10*rng.NormFloat64(), batch)
		m.add(batch)
		weight := max(0.1, 1/float64(i+1))
		floats.Scale(1-weight, weights)
		batches, weights = append(batches, batch), append(weights, weight)
		mean, variance := 0.0, 0.0
		for j, x := range batches {
			mean += weights[j] * stat.Mean(x, nil)
		}
		for j, x := range batches {
			variance += weights[j] * stat.MomentAbout(2, x, mean, nil)
		}
		nntest.Near(t, "mean and variance", []float64{m.mean - 1e6, m.variance}, []float64{mean - 1e6, variance}, 1e-9)
		if i < 10 {
			mean, variance := stat.PopMeanVariance(slices.Concat(batches...), nil)
			nntest.Near(t, "moments of all targets", []float64{m.mean - 1e6, m.variance}, []float64{mean - 1e6, variance},
				1e-9)
		}
	}
}

// Targets that do not vary are no trouble, and neither is a single one.
func TestMomentsOfEqualTargets(t *testing.T) {
	for _, targets := range [][]float64{{3}, {3, 3, 3}} {
		var m moments
		m.add(targets)
		if m.mean != 3 || m.variance != 0 || m.deviation() != 1 {
			t.Errorf("of %v: %+v", targets, m)
		}
	}
}

// gradient is that of the mean squared error, on every third observation as on all, by gorgonia.
func TestValueGradientAgreesWithGorgonia(t *testing.T) {
	const n, o, m = 700, 3, 3
	rng := rand.New(rand.NewPCG(17, 0))
	v, x, y := NewValueFunction(o, rng), random(rng, n*o), random(rng, n)
	var someX, someY []float64
	for i := 1; i < n; i += m {
		someX, someY = append(someX, x[i*o:(i+1)*o]...), append(someY, y[i])
	}
	rows := len(someY)
	loss, want := gorgoniatest.Gradient(v.params, func(g *gorgoniatest.Graph) *gorgonia.Node {
		values := g.MLP(v.network, g.Matrix(rows, o, someX))
		errors := gorgonia.Must(gorgonia.Sub(values, g.Matrix(rows, 1, someY)))
		return g.WeightedSum(slices.Repeat([]float64{1 / float64(rows)}, rows), gorgonia.Must(gorgonia.Square(errors)))
	})
	each(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		some := func(values []float64, columns int) compute.Block {
			return s.FromSlice(n, columns, values).RowRange(1, n).EveryRow(m)
		}
		observations, targets := some(x, o), some(y, 1)
		nntest.Near(t, "loss", []float64{v.squaredError(b, v.params, observations, targets) / float64(rows)}, []float64{loss},
			1e-12)
		nntest.Near(t, "gradient", v.gradient(b, observations, targets), want, 1e-12)
	})
}

// distant is a problem with returns like those of training: hundreds, with a deviation of as much.
func distant(s *compute.Scope, n int, rng *rand.Rand) problem {
	p := newProblem(s, n, rng)
	floats.Scale(200, p.returns)
	floats.AddConst(700, p.returns)
	return p
}

// It learns in a few batches what the value head does not in as many: returns of hundreds, of a batch that is new to
// both.
func TestValueFunctionLearns(t *testing.T) {
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	rng := rand.New(rand.NewPCG(18, 0))
	v, head := NewValueFunction(3, rng), New(3, Kind{}, rng)
	for range 8 {
		p := distant(s, 1200, rng)
		if _, err := v.Learn(b, p.observations, p.returns, 10); err != nil {
			t.Fatal(err)
		}
		if _, err := head.StepValue(head.Evaluate(s, p.observations), p.returns); err != nil {
			t.Fatal(err)
		}
	}
	p := distant(s, 1200, rng)
	explained, before := ExplainedVariance(v.Values(s, p.observations), p.returns),
		ExplainedVariance(head.Evaluate(s, p.observations).Values(), p.returns)
	if !(explained > 0.9 && before < 0.1) {
		t.Errorf("explained variance %.3f, of the value head after one step a batch %.3f", explained, before)
	}
}

// The number of passes and the snapshot halfway, against a twin that keeps every state on the way: there are more
// passes after the second half of the last ones has lowered the error on the new batch, and otherwise fewer. Of every
// other batch a third is not new.
func TestPassesAgreeWithTwin(t *testing.T) {
	const n, epochs = 300, 9
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	rng := rand.New(rand.NewPCG(19, 0))
	v, twin := NewValueFunction(3, rng), NewValueFunction(3, rng)
	distance := func(from state.Arrays, params string, p problem) float64 {
		w := NewValueFunction(3, rng)
		w.moments = moments{from["moments"][0], from["moments"][1], from["moments"][2]}
		copy(w.params, from[params])
		return floats.Distance(w.Values(s, p.observations), p.returns, 2)
	}
	want, more, fewer := epochs, 0, 0
	for batch := range 40 {
		p := distant(s, n, rng)
		for i := range p.returns {
			p.returns[i] += float64(30*batch) * rng.NormFloat64() // ever more to learn by heart
		}
		before := state.Save(v.Visit)
		if batch > 0 {
			quarter := int(math.Ceil(float64(want) / 4))
			if distance(before, "params", p) < distance(before, "halfway", p) {
				want, more = min(epochs, want+quarter), more+1
			} else {
				want, fewer = max(1, want-quarter), fewer+1
			}
		}
		if err := state.Restore(before, twin.Visit); err != nil {
			t.Fatal(err)
		}
		passes, err := v.Learn(b, p.observations, p.returns, epochs)
		if err != nil || passes != want {
			t.Fatalf("batch %d: %d passes, error %v; want %d", batch, passes, err, want)
		}
		twin.moments.add(p.returns)
		y := twin.standardized(s, p.returns)
		states := [][]float64{slices.Clone(twin.params)}
		for range want {
			twin.pass(b, p.observations, y)
			states = append(states, slices.Clone(twin.params))
		}
		if !slices.Equal(v.params, states[want]) || !slices.Equal(v.halfway, states[want/2]) {
			t.Fatalf("batch %d: other parameters after %d passes, or halfway", batch, want)
		}
	}
	if t.Logf("seed 19: %d times more, %d times fewer", more, fewer); more < 5 || fewer < 5 {
		t.Error("that shows nothing")
	}
	if passes, err := v.Learn(b, s.FromSlice(1, 3, []float64{1, 2, 3}), []float64{4}, 1); err != nil || passes != 1 {
		t.Errorf("a single observation: %d passes, error %v", passes, err)
	}
}

// learned visits what another value function may start with.
func learned(v *ValueFunction) func(*state.Visitor) {
	return func(s *state.Visitor) { v.Learned(s, false) }
}

func requireState(t *testing.T, got, want state.Arrays) {
	t.Helper()
	for name, x := range want {
		if !slices.Equal(got[name], x) {
			t.Fatalf("%s differs", name)
		}
	}
}

// A restored value function continues with the same bits; one that adopts another's state has its values.
func TestRestoredValueFunctionContinues(t *testing.T) {
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	rng := rand.New(rand.NewPCG(20, 0))
	v, p := NewValueFunction(3, rng), distant(s, 300, rng)
	learn := func(v *ValueFunction) {
		t.Helper()
		if _, err := v.Learn(b, p.observations, p.returns, 3); err != nil {
			t.Fatal(err)
		}
	}
	learn(v)
	restored, adopted := NewValueFunction(3, rng), NewValueFunction(3, rng)
	saved := state.Save(v.Visit)
	if err := errors.Join(state.Restore(saved, restored.Visit), state.Restore(saved, learned(adopted))); err != nil {
		t.Fatal(err)
	}
	nntest.Near(t, "adopted values", adopted.Values(s, p.observations), v.Values(s, p.observations), 0)
	if steps := state.Save(adopted.Visit)["optimizer.steps"][0]; steps != 0 {
		t.Errorf("the optimiser begins with %v steps", steps)
	}
	learn(v)
	learn(restored)
	requireState(t, state.Save(restored.Visit), state.Save(v.Visit))
}

func TestRefusedStateChangesNoValue(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 0))
	other := NewValueFunction(3, rng)
	other.moments.add([]float64{1, 2, 3})
	other.optimizer.Step(other.params, make([]float64, len(other.params)))
	for name, bad := range map[string][]float64{
		"params": {1}, "moments": {1, 2}, "halfway": {1}, "passes": {-1}, "optimizer.steps": nil,
		"optimizer.first": {2}, "optimizer.second": {-1},
	} {
		v := NewValueFunction(3, rng)
		before, s := state.Save(v.Visit), state.Save(other.Visit)
		s[name] = bad
		last := name[strings.LastIndexByte(name, '.')+1:]
		if err := state.Restore(s, v.Visit); err == nil || !strings.Contains(err.Error(), last) {
			t.Errorf("%s of %d numbers: error %v", name, len(bad), err)
		}
		requireState(t, state.Save(v.Visit), before)
	}
	for _, bad := range [][]float64{{-1, 0, 1}, {0.5, 0, 1}, {1, 0, -1}, {1, math.NaN(), 1}, {math.Inf(1), 0, 1}} {
		v := NewValueFunction(3, rng)
		before, s := state.Save(v.Visit), state.Save(other.Visit)
		s["moments"] = bad
		for _, take := range []func(*state.Visitor){v.Visit, learned(v)} {
			if err := state.Restore(s, take); err == nil || !strings.Contains(err.Error(), "moments") {
				t.Errorf("moments %v: error %v", bad, err)
			}
		}
		requireState(t, state.Save(v.Visit), before)
	}
}

// Targets or observations that are not finite, or whose gradient is not, teach nothing.
func TestNotFiniteTargetsTeachNothing(t *testing.T) {
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	rng := rand.New(rand.NewPCG(22, 0))
	v, p := NewValueFunction(3, rng), distant(s, 300, rng)
	before := state.Save(v.Visit)
	observations := compute.ToSlice(b, p.observations)
	observations[301] = math.NaN()
	infinite := slices.Clone(p.returns)
	infinite[7] = math.Inf(1)
	for what, learn := range map[string]func() (int, error){
		"a target": func() (int, error) { return v.Learn(b, p.observations, infinite, 3) },
		"an observation": func() (int, error) {
			return v.Learn(b, s.FromSlice(300, 3, observations), p.returns, 3)
		},
	} {
		var notFinite *optim.NotFiniteError
		if _, err := learn(); !errors.As(err, &notFinite) {
			t.Errorf("%s: error %v", what, err)
		}
		requireState(t, state.Save(v.Visit), before)
	}
	for what, learn := range map[string]func(){
		"no epochs":   func() { _, _ = v.Learn(b, p.observations, p.returns, 0) },
		"few targets": func() { _, _ = v.Learn(b, p.observations, p.returns[1:], 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			learn()
		}()
	}
}
