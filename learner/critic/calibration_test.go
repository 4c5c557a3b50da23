package critic

import (
	"math"
	"math/rand/v2"
	"slices"
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
				distance := 2 * statekernel.Bound * (p.features[2*i+c] - p.features[2*j+c]) / (high - low) / k.Hyper.Base[0]
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
	k := gp.Kernel{C1: 1, C2: 0.01, Hyper: gp.Hyper{Base: []float64{0.5}, OutputScale: 0.8, FisherVariance: 1, Noise: 0.3}}
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
		t.Logf("of the %g interval: %.3f; with a ninth of the noise %.3f, with nine times %.3f", level, right, sure, unsure)
		if math.Abs(right-level) > 4*deviation {
			t.Errorf("the %g interval holds %g of the targets, %.1f standard deviations away", level, right, (right-level)/deviation)
		}
		if !(sure < level-8*deviation && unsure > level+8*deviation) {
			t.Errorf("the %g interval holds %g of the targets with a ninth of the noise and %g with nine times", level, sure, unsure)
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
	data := gp.Data{Features: s.FromSlice(drawn, 2, p.features), Fisher: s.FromSlice(drawn, 3, p.fisher), Targets: s.FromSlice(drawn, 1, targets)}
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

// Heavy tails are told from normal ones, and intervals narrowed for them hold what they should.
func TestDegrees(t *testing.T) {
	const n = 20000
	rng := rand.New(rand.NewPCG(3, 0))
	mean, variance := make([]float64, n), slices.Repeat([]float64{4}, n)
	normal, heavy := make([]float64, n), make([]float64, n)
	student := distuv.StudentsT{Sigma: math.Sqrt(4 * 2. / 4), Nu: 4, Src: rng} // of variance 4
	for i := range n {
		normal[i], heavy[i] = 2*rng.NormFloat64(), student.Rand()
	}
	if nu := Degrees(normal, mean, variance); nu < 30 {
		t.Errorf("normal targets have %g degrees of freedom", nu)
	}
	nu := Degrees(heavy, mean, variance)
	if nu != 4 {
		t.Errorf("Student's t with 4 degrees of freedom has %g", nu)
	}
	for _, level := range []float64{0.5, 0.9} {
		if c := Coverage(level, heavy, mean, Narrowed(level, nu, variance)); !(math.Abs(c-level) < 0.015) {
			t.Errorf("intervals of %g hold %g", level, c)
		}
		if c := Coverage(level, normal, mean, Narrowed(level, math.Inf(1), variance)); !(math.Abs(c-level) < 0.015) {
			t.Errorf("normal intervals of %g hold %g", level, c)
		}
	}
}
