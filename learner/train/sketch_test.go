package train_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/train"
)

// late returns a Swimmer run whose policy has learned for 150 iterations (testdata/late_swimmer.npz: preset paper, seed
// 1; its last batch returned 231), and the batch of 6,000 steps that this policy plays.
func late(t *testing.T, s config.Settings) (*train.Run, *compute.Scope, *train.Evaluation, *estimators.Quadrature) {
	t.Helper()
	s.Batch, s.RunDir = 1000, "unused"
	collector, kept := newSerial(t, &s), new(journal)
	run := newRun(t, &s, collector, kept)
	run.Length.Iterations = 0
	run.Start(1)
	if err := run.Train(t.Context()); err != nil { // up to the state in which it begins
		t.Fatal(err)
	}
	arrays, err := npz.ReadFile("testdata/late_swimmer.npz")
	if err != nil {
		t.Fatal(err)
	}
	state := kept.states[0]
	for name, array := range arrays {
		state.Arrays[name] = array.Floats
	}
	if err := run.Resume(state, 2); err != nil {
		t.Fatal(err)
	}
	batch, err := collector.Collect(t.Context(), collect.Order{Policy: run.Policy(1), Steps: 6000})
	if err != nil {
		t.Fatal(err)
	}
	mean := 0.0
	for _, e := range batch.Episodes {
		mean += e.Return() / float64(len(batch.Episodes))
	}
	if mean < 200 {
		t.Fatalf("the policy returns %.0f, so it is not late in training", mean)
	}
	scope := compute.NewScope(run.Backend)
	t.Cleanup(scope.Release)
	run.Quadrature.Process = train.Fixed{Process: run.Quadrature.Process}
	e, err := run.Estimate(train.NewSamples(scope, batch.Episodes, nil, run.Normalizer()), scope,
		train.NewRandom(1, 150), 150)
	if err != nil {
		t.Fatal(err)
	}
	return run, scope, e.At, e.Estimator.(*estimators.Quadrature)
}

// gradients returns those of DBQPG and UAPG, plain and natural, by name.
func gradients(t *testing.T, s *compute.Scope, at *train.Evaluation, q *estimators.Quadrature) map[string][]float64 {
	t.Helper()
	q.Correction = nil
	e, err := q.Estimate(s, &at.Batch)
	if err != nil {
		t.Fatal(err)
	}
	b, p := s.Backend(), e.Gradient.Rows
	natural := s.New(p, 1)
	cg := linop.CG{MaxIterations: 1000, Tolerance: 1e-16}
	if _, err := cg.Solve(b, at.Fisher.Metric(b), natural, e.Gradient); err != nil {
		t.Fatal(err)
	}
	all := map[string][]float64{"dbqpg": compute.ToSlice(b, e.Gradient), "natural dbqpg": compute.ToSlice(b, natural)}
	for name, c := range map[string]struct {
		correction estimators.Correction
		direction  compute.Block
	}{
		"uapg":         {estimators.UAPG{Decompose: estimators.Projected}, e.Gradient},
		"natural uapg": {estimators.NaturalUAPG{Epsilon: 3, Decompose: estimators.Projected}, natural},
	} {
		correct, err := c.correction.Of(s, e)
		if err != nil {
			t.Fatal(err)
		}
		correct(c.direction)
		all[name] = compute.ToSlice(b, c.direction)
	}
	return all
}

// Late in training, on a batch that is decomposed by sketches, every gradient is what the converged decomposition
// gives: that of a block Krylov method, whose eigenpairs of UU'/n are exact to six digits and more.
func TestSketchedGradients(t *testing.T) {
	paper, err := config.ForTask("Swimmer-v2", config.NPG, config.UAPG, config.Paper)
	if err != nil {
		t.Fatal(err)
	}
	authors, err := configtest.Authors("Swimmer-v2", config.NPG, config.UAPG)
	if err != nil {
		t.Fatal(err)
	}
	for preset, settings := range map[string]config.Settings{"paper": paper, "authors": authors} {
		_, s, at, quadrature := late(t, settings)
		n := at.Targets.Rows
		if n <= linop.ExactSamples {
			t.Fatalf("%d samples are decomposed exactly", n)
		}
		sketched := gradients(t, s, at, quadrature)

		b, rank := s.Backend(), len(at.SVD.S)
		fisher := linop.NewEmpiricalFisher(b, at.Scores)
		pairs, err := linop.RandomizedEigen(s, fisher, rank, 6, rand.New(rand.NewPCG(2, 0)))
		if err != nil {
			t.Fatal(err)
		}
		svd := &linop.SVD{P: linop.NewDense(b, pairs.Vectors), V: s.New(n, rank)}
		inverse := make([]float64, rank)
		for j, value := range pairs.Values {
			svd.S = append(svd.S, math.Sqrt(float64(n)*value))
			inverse[j] = 1 / svd.S[j]
		}
		b.Gemm(false, false, 1, linop.Mul(s, at.Scores, pairs.Vectors, true), s.Diagonal(inverse), 0, svd.V)
		at.SVD = svd
		quadrature.Solver = gp.Direct{}
		converged := gradients(t, s, at, quadrature)
		for _, name := range []string{"dbqpg", "uapg", "natural dbqpg", "natural uapg"} {
			x, y := sketched[name], converged[name]
			cosine := floats.Dot(x, y) / floats.Norm(x, 2) / floats.Norm(y, 2)
			t.Logf("%s, %s: cosine %.5f, norms %.3g and %.3g", preset, name, cosine, floats.Norm(x, 2),
				floats.Norm(y, 2))
			if !(cosine >= 0.99) {
				t.Errorf("%s, %s: cosine %.4f to the converged one, want 0.99", preset, name, cosine)
			}
		}
		if slices.Equal(sketched["dbqpg"], converged["dbqpg"]) {
			t.Errorf("%s: the same decomposition twice", preset)
		}
	}
}
