package critic

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
)

func TestHeldOut(t *testing.T) {
	for _, c := range []struct {
		lengths []int
		want    int
	}{
		{nil, 0}, {[]int{7}, 0}, {[]int{3, 4}, 3}, {[]int{5, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 5},
		{[]int{5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 7}, {make([]int, 30), 0},
	} {
		if got := (Trajectories{Lengths: c.lengths}).HeldOut(); got != c.want {
			t.Errorf("of episodes of lengths %v %d steps are held out, want %d", c.lengths, got, c.want)
		}
	}
}

func TestCoverage(t *testing.T) {
	targets, mean, variance := []float64{1, 0, -3, 5}, []float64{0, 0, 0, 5}, []float64{4, 0, 4, 0}
	for _, c := range []struct{ level, want float64 }{
		{0.1, 0.5}, {0.38, 0.5}, {0.39, 0.75}, {0.86, 0.75}, {0.87, 1}, // 1 is half a deviation away, 3 one and a half
	} {
		if got := Coverage(c.level, targets, mean, variance); got != c.want {
			t.Errorf("the %g interval holds %g of the targets, want %g", c.level, got, c.want)
		}
	}
	if got := Coverage(0.5, nil, nil, nil); !math.IsNaN(got) {
		t.Errorf("of no targets it is %g", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic where there are fewer means than targets")
		}
	}()
	Coverage(0.5, targets, mean[:3], variance)
}

// drawnProcess is a batch whose targets are drawn from the process itself: from the exact
// kernel, by the Cholesky factor of its matrix.
type drawnProcess struct {
	features, fisher []float64 // n × 2, n × 3
	factor           mat.TriDense
}

const drawn = 400 // n

func newDrawnProcess(k gp.Kernel, rng *rand.Rand) *drawnProcess {
	p := &drawnProcess{features: random(rng, 2*drawn), fisher: random(rng, 3*drawn)}
	for i := range p.fisher {
		p.fisher[i] /= math.Sqrt(drawn)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range p.features {
		low, high = min(low, x), max(high, x)
	}
	covariance := mat.NewSymDense(drawn, nil)
	for i := range drawn {
		for j := i; j < drawn; j++ {
			sum := 0.0
			for c := range 2 {
				apart := (p.features[2*i+c] - p.features[2*j+c]) / (high - low)
				distance := 2 * statekernel.Bound * apart / k.Hyper.Base[0]
				sum += k.C1 * k.OutputScale * math.Exp(-distance*distance/2)
			}
			for c := range 3 {
				sum += k.C2 * drawn * k.FisherVariance * p.fisher[3*i+c] * p.fisher[3*j+c]
			}
			covariance.SetSym(i, j, sum)
		}
		covariance.SetSym(i, i, covariance.At(i, i)+k.Noise)
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(covariance) {
		panic("the covariance is not positive definite")
	}
	cholesky.LTo(&p.factor)
	return p
}

// The intervals of a correctly specified process have the nominal coverage; if it assumes a
// ninth of the noise they have less, and if it assumes nine times the noise they have more.
func TestCoverageOfDrawnTargets(t *testing.T) {
	const seed, draws, held = 31, 8, 100
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := gp.Kernel{C1: 1, C2: 0.01, Hyper: gp.Hyper{Base: []float64{0.5}, OutputScale: 0.8, FisherVariance: 1,
		Noise: 0.3}}
	process := newDrawnProcess(k, rng)
	targets := make([][]float64, draws)
	for i := range targets {
		var y mat.VecDense
		y.MulVec(&process.factor, mat.NewVecDense(drawn, random(rng, drawn)))
		targets[i] = y.RawVector().Data
	}
	coverage := func(noise, level float64) (mean float64) {
		for _, y := range targets {
			mean += process.coverage(t, k, noise, level, y, held) / draws
		}
		return mean
	}
	for _, level := range []float64{0.5, 0.9} {
		deviation := math.Sqrt(level * (1 - level) / (draws * held))
		right, sure, unsure := coverage(k.Noise, level), coverage(k.Noise/9, level), coverage(9*k.Noise, level)
		t.Logf("of the %g interval: %.3f; with a ninth of the noise %.3f, with nine times %.3f", level, right, sure,
			unsure)
		if math.Abs(right-level) > 4*deviation {
			t.Errorf("the %g interval holds %g of the targets, %.1f standard deviations away", level, right,
				(right-level)/deviation)
		}
		if !(sure < level-8*deviation && unsure > level+8*deviation) {
			t.Errorf("the %g interval holds %g of the targets with a ninth of the noise and %g with nine times", level,
				sure, unsure)
		}
	}
}

// coverage returns the coverage of the first targets, which are left out, under a given noise variance.
func (p *drawnProcess) coverage(t *testing.T, k gp.Kernel, noise, level float64, targets []float64, held int) float64 {
	t.Helper()
	b := nntest.Backends()[2]
	s := compute.NewScope(b)
	defer s.Release()
	k.Noise = noise
	data := gp.Data{Features: s.FromSlice(drawn, 2, p.features), Fisher: s.FromSlice(drawn, 3, p.fisher),
		Targets: s.FromSlice(drawn, 1, targets)}
	posterior, err := gp.Direct{}.Fit(s, k, data)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := posterior.(gp.CrossValidator).LeaveOut(0, held)
	if err != nil {
		t.Fatal(err)
	}
	at := gp.Points{Features: data.Features.RowRange(0, held), Fisher: data.Fisher.RowRange(0, held)}
	mean, variance := s.New(held, 1), s.New(held, 1)
	if err := rest.Predict(gp.ActionValue, at, mean, variance); err != nil {
		t.Fatal(err)
	}
	spreads := compute.ToSlice(b, variance)
	for i := range spreads {
		spreads[i] += noise
	}
	return Coverage(level, targets[:held], compute.ToSlice(b, mean), spreads)
}

// By hand: the standard normal at 0, and a normal of variance 4 two deviations away.
func TestLogDensity(t *testing.T) {
	got := LogDensity([]float64{0, 5}, []float64{0, 1}, []float64{1, 4})
	want := -math.Log(2*math.Pi)/2 - (math.Log(4)/2+2)/2
	if !(math.Abs(got-want) < 1e-15) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Heavy tails are told from normal ones, and intervals of them hold what they should, also where the predicted
// variances are off.
func TestTails(t *testing.T) {
	const n = 20000
	rng := rand.New(rand.NewPCG(3, 0))
	for _, c := range []Tails{{math.Inf(1), 1}, {math.Inf(1), 0.5}, {4, 1}, {4, 2}, {2, 0.3}, {1, 1}} {
		targets, mean, variance := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			mean[i], variance[i] = rng.NormFloat64(), 1+9*rng.Float64()
			scale := c.Scale * math.Sqrt(variance[i])
			if math.IsInf(c.Degrees, 1) {
				targets[i] = mean[i] + scale*rng.NormFloat64()
			} else {
				targets[i] = distuv.StudentsT{Mu: mean[i], Sigma: scale, Nu: c.Degrees, Src: rng}.Rand()
			}
		}
		found := TailsOf(targets, mean, variance)
		if found.Degrees != c.Degrees && !(c.Degrees > 30 && found.Degrees == 30) ||
			math.Abs(found.Scale/c.Scale-1) > 0.03 {
			t.Errorf("%v is found to be %v", c, found)
		}
		for _, level := range []float64{0.5, 0.9} {
			if share := found.Coverage(level, targets, mean, variance); !(math.Abs(share-level) < 0.015) {
				t.Errorf("%v: intervals of %g hold %g", c, level, share)
			}
		}
	}
}

// The likelihood is that of the distributions, target by target.
func TestTailsLikelihood(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 0))
	squares := make([]float64, 50)
	for i := range squares {
		squares[i] = 3 * rng.ExpFloat64()
	}
	for _, nu := range degrees {
		scale, got := scaleOf(squares, nu)
		density := func(scale float64) (mean float64) {
			for _, z2 := range squares {
				if math.IsInf(nu, 1) {
					mean += distuv.Normal{Sigma: scale}.LogProb(math.Sqrt(z2)) / float64(len(squares))
				} else {
					mean += distuv.StudentsT{Sigma: scale, Nu: nu}.LogProb(math.Sqrt(z2)) / float64(len(squares))
				}
			}
			return mean
		}
		if want := density(scale); math.Abs(got-want) > 1e-12 {
			t.Errorf("%g degrees: %g, want %g", nu, got, want)
		}
		for _, other := range []float64{0.999 * scale, 1.001 * scale} {
			if density(other) >= got {
				t.Errorf("%g degrees: a scale of %g is more likely than %g", nu, other, scale)
			}
		}
	}
}
