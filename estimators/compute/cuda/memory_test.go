//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// An update of about the same length as the last one has nothing from the driver.
func TestSteadyState(t *testing.T) {
	b := opened(t)
	b.exact = false
	update := func(n int) {
		s := compute.NewScope(b)
		defer s.Release()
		for _, k := range []int{376, 64, 64, 1, 1} {
			s.New(n, k)
		}
	}
	update(1000)
	before := b.Memory()
	for _, n := range []int{1000, 1000, 1001, 1020} {
		update(n)
	}
	if after := b.Memory(); after != before {
		t.Errorf("%+v after %+v", after, before)
	}
	if allocs := testing.AllocsPerRun(20, func() { b.Release(b.Alloc(1000)) }); allocs != 0 {
		t.Errorf("Alloc and Release allocate %v times", allocs)
	}
}

func TestReleaseTwice(t *testing.T) {
	b := opened(t)
	x := b.Alloc(3)
	b.Release(x)
	defer func() {
		if recover() == nil {
			t.Error("a buffer may be released twice")
		}
	}()
	b.Release(x)
}

// A full device first gets back what the pool keeps, and then the error tells the
// sizes. The backend is still good for what fits.
func TestOutOfMemory(t *testing.T) {
	onlyEmulated(t)
	t.Setenv("CUDA_EMULATOR_MEMORY", fmt.Sprint(blasWorkspace+1<<20))
	b := opened(t)
	keep := b.Alloc(64 << 10 / float64Bytes)
	for _, kib := range []int{500, 600, 700, 900} { // together they do not fit
		b.Release(b.Alloc(kib << 10 / float64Bytes))
	}
	var full *OutOfMemoryError
	err := failure(func() { b.Alloc(1 << 20 / float64Bytes) })
	if !errors.As(err, &full) {
		t.Fatal(err)
	}
	if want := (OutOfMemoryError{1 << 20, blasWorkspace + 64<<10, 960 << 10, blasWorkspace + 1<<20}); *full != want {
		t.Errorf("%+v, want %+v", *full, want)
	}
	if got := b.Memory(); got.Reserved != got.InUse || got.Peak < blasWorkspace+900<<10 {
		t.Errorf("%+v", got)
	}
	b.Release(keep)
	b.Release(b.Alloc(960 << 10 / float64Bytes))
}

// What is in use elsewhere makes no computation too large.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		asked, inUse, free int64 // GiB, of 80
		want               bool
	}{
		{8, 72, 7, true},   // the driver has the eightieth
		{3, 70, 2, true},   // of which there is never all
		{8, 64, 2, false},  // others have 14
		{8, 8, 4, false},   // others have nearly all
		{81, 0, 10, true},  // whatever others have
		{20, 60, 19, true}, // the whole
	} {
		e := &OutOfMemoryError{c.asked << 30, c.inUse << 30, c.free << 30, 80 << 30}
		if e.TooLarge() != c.want {
			t.Errorf("%v: too large is %v", e, !c.want)
		}
	}
}

// Copies of blocks with and without gaps, smaller and larger than the staging buffer.
func TestCopies(t *testing.T) {
	b := opened(t)
	for _, c := range []struct{ rows, cols, top, left, height, width int }{
		{1, 1, 0, 0, 1, 1},
		{5, 7, 1, 2, 3, 4},
		{5, 7, 0, 3, 5, 1},
		{5, 7, 2, 0, 1, 7},
		{5, 7, 2, 1, 2, 0},
		{3000, 400, 1, 0, 2999, 399}, // larger than staging
		{2, stagingElements + 9, 0, 3, 2, stagingElements + 5},     // and so is a row
		{1, 3*stagingElements + 1, 0, 0, 1, 3*stagingElements + 1}, // contiguous
	} {
		t.Run(fmt.Sprintf("%d×%d of %d×%d", c.height, c.width, c.rows, c.cols), func(t *testing.T) {
			all := random(c.rows * c.cols)
			x := compute.FromSlice(b, c.rows, c.cols, all)
			defer b.Release(x.Buffer)
			part := random(c.height * c.width)
			view := x.View(c.top, c.top+c.height, c.left, c.left+c.width)
			b.Upload(view, part)
			for i := range c.height {
				copy(all[(c.top+i)*c.cols+c.left:], part[i*c.width:(i+1)*c.width])
			}
			if !slices.Equal(compute.ToSlice(b, view), part) {
				t.Error("the view is not what was uploaded")
			}
			if !slices.Equal(compute.ToSlice(b, x), all) {
				t.Error("what surrounds the view has changed")
			}
		})
	}
}

// Memory may be reused as soon as Upload returns.
func TestUploadReuse(t *testing.T) {
	b := opened(t)
	var blocks []compute.Block
	src := make([]float64, 1000)
	for i := range 10 {
		for j := range src {
			src[j] = float64(i)
		}
		blocks = append(blocks, compute.FromSlice(b, 10, 100, src))
	}
	clear(src)
	for i, x := range blocks {
		if got := compute.ToSlice(b, x); got[0] != float64(i) || got[999] != float64(i) {
			t.Errorf("upload %d holds %v ... %v", i, got[0], got[999])
		}
	}
}

func random(n int) []float64 {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}
