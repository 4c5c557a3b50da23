package computetest

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"pgregory.net/rapid"
)

// TestBackend is the conformance suite of backends. It compares each operation with that
// of [Naive] on random shapes and views, with NaN wherever the operation must not read,
// and checks that repeated calls return the same bits, whatever GOMAXPROCS is.
// newBackend makes a backend; the suite uses several at a time.
func TestBackend(t *testing.T, newBackend func() compute.Backend) {
	b := newBackend()
	single := withProcs(1, newBackend)
	for _, op := range operations {
		t.Run(op.name, rapid.MakeCheck(func(rt *rapid.T) { testOperation(rt, op, b, single) }))
		t.Run(op.name+"Tall", func(t *testing.T) { testTall(t, op, b, single) })
		t.Run(op.name+"Shapes", rapid.MakeCheck(func(rt *rapid.T) { testShapes(rt, op, b) }))
	}
	t.Run("Zeros", func(t *testing.T) { testZeros(t, b) })
	t.Run("TanhAccuracy", func(t *testing.T) { testTanhAccuracy(t, b) })
	t.Run("Memory", rapid.MakeCheck(func(rt *rapid.T) { testMemory(rt, b) }))
	t.Run("PanelsCover", rapid.MakeCheck(func(rt *rapid.T) { testPanelsCover(rt, b) }))
	t.Run("PanelsChain", func(t *testing.T) { testPanelsChain(t, b, single) })
	t.Run("PanelsNested", func(t *testing.T) { testPanelsNested(t, b) })
}

// withProcs calls f while GOMAXPROCS is n.
func withProcs[T any](n int, f func() T) T {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	return f()
}

// draw generates the arguments of an operation: sizes from intn, contents from rng.
type draw struct {
	intn  func(label string, low, high int) int
	rng   *rand.Rand
	rows  int // number of rows of tall blocks; -1 draws it
	least int // minimum number of rows and columns, where they are drawn
	alias bool
}

// drawFrom takes all choices from rapid, so that failures can be shrunk and repeated.
func drawFrom(t *rapid.T) *draw {
	seed := rapid.Uint64().Draw(t, "contents")
	return &draw{
		intn:  func(label string, low, high int) int { return rapid.IntRange(low, high).Draw(t, label) },
		rng:   rand.New(rand.NewPCG(seed, 0)),
		rows:  -1,
		alias: true,
	}
}

// drawTall makes operations of n rows whose other choices follow from seed.
func drawTall(n int, seed uint64) *draw {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &draw{
		intn: func(_ string, low, high int) int { return low + rng.IntN(high-low+1) },
		rng:  rng,
		rows: n,
	}
}

// n returns the number of rows of the operation's tall blocks.
func (d *draw) n() int {
	if d.rows >= 0 {
		return d.rows
	}
	return d.intn("rows", d.least, 40)
}

// k returns a number of columns.
func (d *draw) k() int { return d.intn("cols", max(1, d.least), 20) }

func (d *draw) flag(label string) bool { return d.intn(label, 0, 1) == 1 }

// scalar returns 0, 1, -1 or any number: backends tend to treat the first three separately.
func (d *draw) scalar(label string) float64 {
	switch d.intn(label, 0, 4) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return -1
	}
	return d.rng.NormFloat64()
}

// operand is an argument: a view into a parent matrix, all NaN outside the view.
type operand struct {
	rows, cols             int
	top, left, below, next int // rows and columns of the parent around the view
	values                 []float64
	sameAs                 int // the earlier operand that this is, or -1
}

// block draws an operand with the given elements.
func (d *draw) block(rows, cols int, value func() float64) operand {
	x := operand{rows: rows, cols: cols, sameAs: -1}
	if d.flag("view") {
		x.top, x.left = d.intn("top", 0, 2), d.intn("left", 0, 3)
		x.below, x.next = d.intn("below", 0, 2), d.intn("next", 0, 3)
	}
	x.values = make([]float64, rows*cols)
	for i := range x.values {
		x.values[i] = value()
	}
	return x
}

// in returns an operand of normal numbers; a dst that an operation adds to is one too.
func (d *draw) in(rows, cols int) operand { return d.block(rows, cols, d.rng.NormFloat64) }

// out returns a dst whose old contents do not matter.
func (d *draw) out(rows, cols int) operand {
	return d.block(rows, cols, math.NaN)
}

// maybe returns x, or one of the earlier operands of its shape where aliasing is drawn.
func (d *draw) maybe(x operand, earlier ...int) operand {
	if d.alias && d.flag("alias") {
		x.sameAs = earlier[d.intn("same as", 0, len(earlier)-1)]
	}
	return x
}

// parent returns the operand's parent matrix.
func (x operand) parent() (rows, cols int, values []float64) {
	rows, cols = x.top+x.rows+x.below, x.left+x.cols+x.next
	values = make([]float64, rows*cols)
	for i := range values {
		values[i] = math.NaN()
	}
	for i := range x.rows {
		copy(values[(x.top+i)*cols+x.left:], x.values[i*x.cols:(i+1)*x.cols])
	}
	return rows, cols, values
}

// call is an operation with its arguments; run returns what the operation returns.
type call struct {
	operands []operand
	run      func(b compute.Backend, x []compute.Block) []float64
}

// results runs the call on b: what it returns, then all elements of all parents.
func (c call) results(b compute.Backend) []float64 {
	s := compute.NewScope(b)
	defer s.Release()
	var parents, args []compute.Block
	for _, x := range c.operands {
		if x.sameAs >= 0 {
			args = append(args, args[x.sameAs])
			continue
		}
		parent := s.FromSlice(x.parent())
		parents = append(parents, parent)
		args = append(args, parent.View(x.top, x.top+x.rows, x.left, x.left+x.cols))
	}
	results := c.run(b, args)
	for _, parent := range parents {
		results = append(results, compute.ToSlice(b, parent)...)
	}
	return results
}

// testOperation compares a call of op with that of the naive backend.
func testOperation(t *rapid.T, op operation, b, single compute.Backend) {
	c := op.draw(drawFrom(t))
	procs := rapid.IntRange(1, 4).Draw(t, "GOMAXPROCS")
	compare(t, c, b, single, procs)
}

// testTall is testOperation for more rows than two panels have.
func testTall(t *testing.T, op operation, b, single compute.Backend) {
	for seed := range uint64(4) {
		compare(t, op.draw(drawTall(severalPanels(b), seed)), b, single, 3)
	}
}

// severalPanels returns a number of rows that b divides into more than two panels, if it
// ever makes more than one.
func severalPanels(b compute.Backend) int {
	n := 50
	for b.NumPanels(n) < 3 && n < 20_000 {
		n = n*3/2 + 1
	}
	return n
}

func compare(t rapid.TB, c call, b, single compute.Backend, procs int) {
	t.Helper()
	want, got := c.results(Naive()), c.results(b)
	if i := firstDifference(got, want, 1e-11); i >= 0 {
		t.Fatalf("result %d of %d is %v, want %v", i, len(want), got[i], want[i])
	}
	again := withProcs(procs, func() []float64 { return c.results(b) })
	if i := firstDifference(again, got, 0); i >= 0 {
		t.Fatalf("result %d is %v, and %v when repeated with GOMAXPROCS=%d", i, got[i], again[i], procs)
	}
	alone := c.results(single)
	if i := firstDifference(alone, got, 0); i >= 0 {
		t.Fatalf("result %d is %v, and %v on a backend made with GOMAXPROCS=1", i, got[i], alone[i])
	}
}

// firstDifference returns the first i where got and want differ by more than tolerance
// (relative, and absolute below 1), or -1. NaN equals NaN.
func firstDifference(got, want []float64, tolerance float64) int {
	for i := range want {
		if math.IsNaN(got[i]) && math.IsNaN(want[i]) || got[i] == want[i] {
			continue
		}
		if !(math.Abs(got[i]-want[i]) <= tolerance*max(1, math.Abs(want[i]))) {
			return i
		}
	}
	return -1
}

// testShapes gives one operand an extra row or column, with which the operation must panic.
func testShapes(t *rapid.T, op operation, b compute.Backend) {
	d := drawFrom(t)
	d.alias = false
	if op.broadcast {
		d.least = 3 // neither is 1, nor 1 and one too many
	}
	c := op.draw(d)
	if op.anyShape {
		return
	}
	i := d.intn("operand", 0, len(c.operands)-1)
	x := &c.operands[i]
	if op.fixedRows && d.flag("row") {
		x.rows++
	} else {
		x.cols++
	}
	x.values = make([]float64, x.rows*x.cols)
	if !panics(func() { c.results(b) }) {
		t.Fatalf("operand %d may be %d × %d", i, x.rows, x.cols)
	}
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}
