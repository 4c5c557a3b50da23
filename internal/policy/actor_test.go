package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// testActor draws a policy with weights large enough to bend the tanh, and a
// normaliser that clips some observations.
func testActor(tb testing.TB, shape Shape, seed uint64) (*Actor, []float64, Normalizer) {
	rng := rand.New(rand.NewPCG(seed, 0))
	params := shape.Init(rng, nil)
	for i := shape.Network().NumParams(); i < len(params); i++ {
		params[i] = 0.3 * rng.NormFloat64()
	}
	n := Identity(shape.Observation, 5)
	for i := range n.Mean {
		n.Mean[i], n.Std[i] = rng.NormFloat64(), rng.ExpFloat64()
	}
	a, err := NewActor(shape, params, n)
	if err != nil {
		tb.Fatal(err)
	}
	return a, params, n
}

func testObservation(dim int, rng *rand.Rand) []float32 {
	x := make([]float32, dim)
	for i := range x {
		x[i] = float32(2 * rng.NormFloat64())
	}
	return x
}

// meanTwin returns the policy's mean written from the definition, one scalar at a time.
func meanTwin(shape Shape, params []float64, n Normalizer, observation []float32) []float64 {
	var x []float64
	for i, v := range observation {
		y := (float64(v) - n.Mean[i]) / (n.Std[i] + 1e-8)
		x = append(x, math.Max(-n.Clip, math.Min(n.Clip, y)))
	}
	sizes := append(append([]int(nil), shape.Hidden...), shape.Action)
	for l, out := range sizes {
		z := make([]float64, out)
		for i := range z {
			z[i] = params[out*len(x)+i]
			for j := range x {
				z[i] += params[i*len(x)+j] * x[j]
			}
			if l < len(sizes)-1 {
				z[i] = math.Tanh(z[i])
			}
		}
		params = params[out*(len(x)+1):]
		x = z
	}
	return x
}

func TestActorMeanAgreesWithTwin(t *testing.T) {
	for _, shape := range []Shape{
		{Observation: 8, Action: 2, Hidden: []int{64, 64}},
		{Observation: 376, Action: 17, Hidden: []int{64, 64}},
		{Observation: 3, Action: 1, Hidden: []int{5}},
		{Observation: 4, Action: 2, Hidden: nil}, {Observation: 11, Action: 3, Hidden: []int{7, 1, 9}},
	} {
		a, params, n := testActor(t, shape, 7)
		rng := rand.New(rand.NewPCG(8, 0))
		for range 20 {
			x := testObservation(shape.Observation, rng)
			want := meanTwin(shape, params, n, x)
			for i, got := range a.Outputs(x) {
				if math.Abs(got-want[i]) > 1e-13*(1+math.Abs(want[i])) {
					t.Fatalf("%v: mean[%d] = %v, want %v", shape, i, got, want[i])
				}
			}
		}
	}
}

func TestActSamplesTheGaussian(t *testing.T) {
	shape := Shape{Observation: 8, Action: 2, Hidden: DefaultHidden()}
	a, params, n := testActor(t, shape, 9)
	rng := rand.New(rand.NewPCG(10, 0))
	x := testObservation(8, rng)
	mean := meanTwin(shape, params, n, x)
	const samples = 100_000
	var sum, squares [2]float64
	action := make([]float32, 2)
	for range samples {
		a.Act(x, rng, action)
		for i, v := range action {
			z := (float64(v) - mean[i]) / math.Exp(params[len(params)-2+i])
			sum[i] += z
			squares[i] += z * z
		}
	}
	for i := range sum {
		if m := sum[i] / samples; math.Abs(m) > 5/math.Sqrt(samples) {
			t.Errorf("dimension %d: standardised mean %v", i, m)
		}
		if v := squares[i] / samples; math.Abs(v-1) > 5*math.Sqrt(2./samples) {
			t.Errorf("dimension %d: standardised variance %v", i, v)
		}
	}
}

// An episode is a function of its stream and the policy: same stream, same bits.
func TestActRepeats(t *testing.T) {
	shape := Shape{Observation: 17, Action: 6, Hidden: DefaultHidden()}
	a, params, n := testActor(t, shape, 11)
	b, err := NewActor(shape, params, n)
	if err != nil {
		t.Fatal(err)
	}
	params[0] = 1e9 // the actors have their own copy
	rngA, rngB := rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(1, 1))
	x := testObservation(17, rand.New(rand.NewPCG(2, 2)))
	got, want := make([]float32, 6), make([]float32, 6)
	for range 10 {
		a.Act(x, rngA, got)
		b.Act(x, rngB, want)
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("action %v, then %v", got, want)
			}
		}
	}
}

func TestActDoesNotAllocate(t *testing.T) {
	for _, choices := range [][]int{nil, slices.Repeat([]int{3}, 17)} {
		a, _, _ := testActor(t, Shape{376, 17, DefaultHidden(), choices}, 12)
		rng := rand.New(rand.NewPCG(3, 3))
		x, action := testObservation(376, rng), make([]float32, 17)
		if n := testing.AllocsPerRun(100, func() { a.Act(x, rng, action) }); n != 0 {
			t.Errorf("Act allocates %v times", n)
		}
	}
}

// A discrete action is drawn as its logits say, each component by itself; the mode is the likeliest choice.
func TestDiscreteActions(t *testing.T) {
	const draws = 20000
	shape := Shape{5, 2, []int{4}, []int{3, 4}}
	a, _, _ := testActor(t, shape, 5)
	rng := rand.New(rand.NewPCG(6, 6))
	x, action := testObservation(5, rng), make([]float32, 2)
	a.normalizer = Identity(5, 5)
	logits := slices.Clone(a.Outputs(x))
	var want [3][4]float64
	likeliest, sum := [2]float32{}, 0.0
	for i, first := range logits[:3] {
		for j, second := range logits[3:] {
			want[i][j] = math.Exp(first + second)
			sum += want[i][j]
			if best := want[int(likeliest[0])][int(likeliest[1])]; want[i][j] > best {
				likeliest = [2]float32{float32(i), float32(j)}
			}
		}
	}
	var counts [3][4]float64
	for range draws {
		a.Act(x, rng, action)
		counts[int(action[0])][int(action[1])]++
	}
	for i, row := range counts {
		for j, count := range row {
			p := want[i][j] / sum
			if off := count - draws*p; math.Abs(off) > 5*math.Sqrt(draws*p*(1-p)) {
				t.Errorf("action (%d, %d) was drawn %v times of %d, and its probability is %.4f", i, j, count, draws, p)
			}
		}
	}
	if a.ActMode(x, nil, action); [2]float32(action) != likeliest {
		t.Errorf("the mode is %v, want %v", action, likeliest)
	}
}

// draw is the inverse of the distribution function, also where probabilities vanish.
func TestDraw(t *testing.T) {
	log := func(p ...float64) []float64 {
		for i := range p {
			p[i] = 700 + math.Log(p[i])
		}
		return p
	}
	below1 := math.Nextafter(1, 0)
	for _, c := range []struct {
		logits []float64
		u      float64
		want   int
	}{
		{log(0.25, 0.5, 0.25), 0, 0}, {log(0.25, 0.5, 0.25), 0.2499, 0}, {log(0.25, 0.5, 0.25), 0.2501, 1},
		{log(0.25, 0.5, 0.25), 0.7499, 1}, {log(0.25, 0.5, 0.25), 0.7501, 2}, {log(0.25, 0.5, 0.25), below1, 2},
		{[]float64{-1e9, 0}, 0, 1}, {[]float64{1e300, -1e300}, 0.9, 0}, {[]float64{3}, below1, 0},
	} {
		if got := draw(slices.Clone(c.logits), c.u); got != c.want {
			t.Errorf("logits %v at %v: choice %d, want %d", c.logits, c.u, got, c.want)
		}
	}
}

func TestNewActorRefusesBadInput(t *testing.T) {
	shape := Shape{Observation: 3, Action: 2, Hidden: []int{4}}
	good := func() ([]float64, Normalizer) { return make([]float64, shape.NumParams()), Identity(3, 5) }
	for name, tc := range map[string]struct {
		breakIt func(s *Shape, params *[]float64, n *Normalizer)
		want    string
	}{
		"short params": {func(_ *Shape, p *[]float64, _ *Normalizer) { *p = (*p)[1:] }, "27 parameters"},
		"NaN parameter": {func(_ *Shape, p *[]float64, _ *Normalizer) { (*p)[5] = math.NaN() },
			"parameter 5 is NaN"},
		"zero width": {func(s *Shape, _ *[]float64, _ *Normalizer) { s.Hidden = []int{0} },
			"layer sizes [3 0 2]"},
		"huge width": {func(s *Shape, _ *[]float64, _ *Normalizer) { s.Hidden = []int{1 << 30} },
			"between 1 and"},
		"a choice too many": {func(s *Shape, _ *[]float64, _ *Normalizer) { s.Choices = []int{1, 1, 1} },
			"choices [1 1 1] for 2"},
		"an impossible choice": {func(s *Shape, _ *[]float64, _ *Normalizer) { s.Choices = []int{3, -1} },
			"choices [3 -1]"},
		"negative action": {func(s *Shape, _ *[]float64, _ *Normalizer) { s.Action = -1 }, "layer sizes"},
		"short mean":      {func(_ *Shape, _ *[]float64, n *Normalizer) { n.Mean = n.Mean[1:] }, "2 means"},
		"infinite mean": {func(_ *Shape, _ *[]float64, n *Normalizer) { n.Mean[1] = math.Inf(1) },
			"mean 1 is +Inf"},
		"negative std": {func(_ *Shape, _ *[]float64, n *Normalizer) { n.Std[2] = -1 }, "deviation 2 is -1"},
		"NaN std": {func(_ *Shape, _ *[]float64, n *Normalizer) { n.Std[2] = math.NaN() },
			"deviation 2 is NaN"},
		"negative clipping": {func(_ *Shape, _ *[]float64, n *Normalizer) { n.Clip = -5 }, "clip is -5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shape
			params, n := good()
			tc.breakIt(&s, &params, &n)
			if _, err := NewActor(s, params, n); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestInitIsTorchs(t *testing.T) {
	shape := Shape{Observation: 8, Action: 2, Hidden: DefaultHidden()}
	params := shape.Init(rand.New(rand.NewPCG(4, 4)), nil)
	if len(params) != shape.NumParams() || len(params) != 8*64+64+64*64+64+64*2+2+2 {
		t.Fatalf("%d parameters, NumParams %d", len(params), shape.NumParams())
	}
	layers := shape.Network().Layers()
	for i, bound := range []float64{1 / math.Sqrt(8), 1. / 8, 0.1 / 8} {
		l, end := layers[i], layers[i].End()
		if i == 2 {
			end = l.Bias
		}
		largest, sum := 0.0, 0.0
		for _, v := range params[l.Weights:end] {
			largest = max(largest, math.Abs(v))
			sum += v
		}
		count := float64(end - l.Weights)
		if largest > bound || largest < 0.97*bound || math.Abs(sum/count) > 5*bound/math.Sqrt(3*count) {
			t.Errorf("layer %d: largest %v of bound %v, mean %v", i, largest, bound, sum/count)
		}
	}
	for i := layers[2].Bias; i < len(params); i++ {
		if params[i] != 0 {
			t.Errorf("parameter %d, a last bias or log std, is %v", i, params[i])
		}
	}
}

// The standard deviations are all that depends on them: of 1 their logarithms are 0, to the last bit.
func TestInitialStandardDeviations(t *testing.T) {
	shape := Shape{Observation: 8, Action: 2, Hidden: DefaultHidden()}
	initial := func(std []float64) []float64 { return shape.Init(rand.New(rand.NewPCG(4, 4)), std) }
	plain, others := initial(nil), initial([]float64{0.5, 3})
	for i, x := range initial([]float64{1, 1}) {
		if math.Float64bits(x) != math.Float64bits(plain[i]) {
			t.Errorf("parameter %d is %v, want %v", i, x, plain[i])
		}
	}
	n := shape.NumParams() - 2
	if !slices.Equal(others[:n], plain[:n]) || !slices.Equal(others[n:], []float64{math.Log(0.5), math.Log(3)}) {
		t.Errorf("the log standard deviations are %v", others[n:])
	}
	defer func() {
		if recover() == nil {
			t.Error("one standard deviation for two dimensions")
		}
	}()
	initial([]float64{1})
}

func BenchmarkAct(b *testing.B) {
	for _, shape := range []Shape{
		{Observation: 8, Action: 2, Hidden: DefaultHidden()},
		{Observation: 17, Action: 6, Hidden: DefaultHidden()},
		{Observation: 376, Action: 17, Hidden: DefaultHidden()},
	} {
		b.Run(fmt.Sprintf("%d-64-64-%d", shape.Observation, shape.Action), func(b *testing.B) {
			a, _, _ := testActor(b, shape, 13)
			rng := rand.New(rand.NewChaCha8([32]byte{}))
			x, action := testObservation(shape.Observation, rng), make([]float32, shape.Action)
			b.ReportAllocs()
			for b.Loop() {
				a.Act(x, rng, action)
			}
		})
	}
}
