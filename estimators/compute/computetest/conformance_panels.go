package computetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"pgregory.net/rapid"
)

// testZeros checks that zeros keep their signs where nothing is added to them, and that
// operands with the coefficient 0 are not read.
func testZeros(t *testing.T, b compute.Backend) {
	zero, nan := math.Copysign(0, -1), math.NaN()
	s := compute.NewScope(b)
	defer s.Release()
	for _, c := range []struct {
		name             string
		alpha, x         float64
		beta, old, shift float64
		want             float64
	}{
		{"copy", 1, zero, 0, nan, 0, zero},
		{"scale", 2, zero, 0, nan, 0, zero},
		{"add", 1, zero, 1, zero, 0, zero},
		{"keep", 0, nan, 1, zero, 0, zero},
		{"fill", 0, nan, 0, nan, 0, 0},
		{"shift", 1, zero, 0, nan, 3, 3},
	} {
		x, dst := s.FromSlice(1, 1, []float64{c.x}), s.FromSlice(1, 1, []float64{c.old})
		b.Affine(dst, c.alpha, x, c.beta, c.shift)
		if got := compute.ToSlice(b, dst)[0]; math.Float64bits(got) != math.Float64bits(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// testTanhAccuracy checks relative errors over the whole range, and the results for NaN
// and the infinities.
func testTanhAccuracy(t *testing.T, b compute.Backend) {
	values := []float64{0, 1e-300, 1e-10, 1e-5, 0.01, 0.3, 0.55, 0.7, 1, 3, 9, 19, 22, 1000, 1e300, math.Inf(1),
		math.NaN()}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 1000 {
		values = append(values, math.Exp(4*rng.NormFloat64()))
	}
	for _, v := range slices.Clone(values) {
		values = append(values, -v)
	}
	s := compute.NewScope(b)
	defer s.Release()
	z, bias := s.FromSlice(len(values), 1, values), s.FromSlice(1, 1, []float64{0})
	b.Tanh(z, bias)
	for i, got := range compute.ToSlice(b, z) {
		want := math.Tanh(values[i])
		if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 1e-15*math.Abs(want)+4e-16*math.Abs(want) {
			t.Errorf("tanh(%v) = %v, want %v", values[i], got, want)
		}
	}
}

// testMemory allocates and releases at random; live buffers must keep their contents and
// sizes.
func testMemory(t *rapid.T, b compute.Backend) {
	type cell struct {
		block compute.Block
		value float64
	}
	var live []cell
	for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
		if len(live) > 0 && rapid.Bool().Draw(t, "release") {
			i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
			b.Release(live[i].block.Buffer)
			live = slices.Delete(live, i, i+1)
			continue
		}
		rows, cols := rapid.IntRange(0, 30).Draw(t, "rows"), rapid.IntRange(0, 30).Draw(t, "cols")
		block := compute.NewBlock(b, rows, cols)
		if block.Buffer.Len() != rows*cols {
			t.Fatalf("a buffer of %d, not %d × %d", block.Buffer.Len(), rows, cols)
		}
		compute.Fill(b, block, float64(step))
		live = append(live, cell{block, float64(step)})
	}
	for _, c := range live {
		for _, v := range compute.ToSlice(b, c.block) {
			if v != c.value {
				t.Fatalf("found %v in a block filled with %v", v, c.value)
			}
		}
		b.Release(c.block.Buffer)
	}
}

// testPanelsCover checks that each row is in one panel, and that panels are numbered in
// row order.
func testPanelsCover(t *rapid.T, b compute.Backend) {
	n := rapid.IntRange(0, severalPanels(b)).Draw(t, "n")
	var mu sync.Mutex
	bounds := make([][2]int, b.NumPanels(n))
	calls := 0
	b.Panels(n, func(_ compute.Backend, panel, lo, hi int) {
		mu.Lock()
		defer mu.Unlock()
		bounds[panel] = [2]int{lo, hi}
		calls++
	})
	if calls != len(bounds) {
		t.Fatalf("%d calls for NumPanels(%d) = %d", calls, n, len(bounds))
	}
	end := 0
	for _, panel := range bounds {
		if panel[0] != end || panel[1] < panel[0] {
			t.Fatalf("panels %v do not cover [0, %d) in order", bounds, n)
		}
		end = panel[1]
	}
	if end != n {
		t.Fatalf("panels %v do not cover [0, %d)", bounds, n)
	}
}

// network returns the computation of testPanelsChain: a layer forward, its scores back, and
// a gradient summed over all rows, and all of it downloaded.
func network(b compute.Backend, n int) []float64 {
	const in, out = 5, 4
	d := drawTall(n, 3)
	s := compute.NewScope(b)
	defer s.Release()
	x := s.FromSlice(n, in, d.in(n, in).values)
	w, bias := s.FromSlice(out, in, d.in(out, in).values), s.FromSlice(1, out, d.in(1, out).values)
	h, total := s.New(n, out), s.New(out, in)
	partials := compute.NewPartials(s, n, out, in)
	b.Panels(n, func(b compute.Backend, panel, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		h, signal := h.RowRange(lo, hi), s.New(hi-lo, out)
		b.Gemm(false, true, 1, x.RowRange(lo, hi), w, 0, h)
		b.Tanh(h, bias)
		compute.Fill(b, signal, 1)
		b.TanhGrad(signal, h)
		b.Gemm(true, false, 1, signal, x.RowRange(lo, hi), 0, partials.At(panel))
	})
	partials.SumTo(b, total)
	return append(compute.ToSlice(b, total), compute.ToSlice(b, h)...)
}

// testPanelsChain compares a chain inside Panels with that of the naive backend, which has
// other panels, and with itself for other values of GOMAXPROCS.
func testPanelsChain(t *testing.T, b, single compute.Backend) {
	for _, n := range []int{0, 1, 7, severalPanels(b), 2*severalPanels(b) + 1} {
		want, got := network(Naive(), n), network(b, n)
		if i := firstDifference(got, want, 1e-11); i >= 0 {
			t.Fatalf("n = %d: number %d is %v, want %v", n, i, got[i], want[i])
		}
		for procs := 1; procs <= 4; procs++ {
			again := withProcs(procs, func() []float64 { return network(b, n) })
			if i := firstDifference(again, got, 0); i >= 0 {
				t.Fatalf("n = %d: number %d is %v, and %v with GOMAXPROCS=%d", n, i, got[i], again[i], procs)
			}
		}
		if i := firstDifference(network(single, n), got, 0); i >= 0 {
			t.Fatalf("n = %d: number %d differs on a backend made with GOMAXPROCS=1", n, i)
		}
	}
}

// testPanelsNested runs Panels inside a body of Panels, with sums of its own.
func testPanelsNested(t *testing.T, b compute.Backend) {
	n := severalPanels(b)
	s := compute.NewScope(b)
	defer s.Release()
	sums := compute.NewPartials(s, n, 1, 1)
	total := s.New(1, 1)
	b.Panels(n, func(b compute.Backend, panel, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		ones, inner := s.New(n, 1), compute.NewPartials(s, n, 1, 1)
		b.Panels(n, func(b compute.Backend, panel, lo, hi int) {
			compute.Fill(b, ones.RowRange(lo, hi), 1)
			b.SumRows(inner.At(panel), ones.RowRange(lo, hi))
		})
		inner.SumTo(b, sums.At(panel))
		compute.Scale(b, float64(hi-lo), sums.At(panel))
	})
	sums.SumTo(b, total)
	if got := compute.ToSlice(b, total)[0]; got != float64(n)*float64(n) {
		t.Fatalf("%d ones summed in nested panels make %v", n*n, got)
	}
}
