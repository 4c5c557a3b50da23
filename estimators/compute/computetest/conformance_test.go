package computetest_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
)

// Each method is written for every backend: what can be composed of others is a function.
func TestBackendIsSmall(t *testing.T) {
	const most = 28
	if n := reflect.TypeFor[compute.Backend]().NumMethod(); n > most {
		t.Errorf("compute.Backend has %d methods, more than %d", n, most)
	}
}

func TestNaive(t *testing.T) { computetest.TestBackend(t, computetest.Naive) }

func TestOpaque(t *testing.T) {
	var backends []*computetest.OpaqueBackend
	computetest.TestBackend(t, func() compute.Backend {
		b := computetest.Opaque(computetest.Naive())
		backends = append(backends, b)
		return b
	})
	for _, b := range backends {
		// The calls with wrong shapes panic, but their scopes release all the same.
		if n := b.Live(); n != 0 {
			t.Errorf("%d buffers live at the end", n)
		}
	}
}

// TestOpaqueCatches does what the opaque backend exists to catch.
func TestOpaqueCatches(t *testing.T) {
	for _, test := range []struct {
		name, message string
		do            func(b compute.Backend)
	}{
		{"use after release", "after its release", func(b compute.Backend) {
			x := compute.NewBlock(b, 2, 2)
			b.Release(x.Buffer)
			compute.Fill(b, x, 1)
		}},
		{"second release", "after its release", func(b compute.Backend) {
			x := compute.NewBlock(b, 2, 2)
			b.Release(x.Buffer)
			b.Release(x.Buffer)
		}},
		{"foreign block", "another backend", func(b compute.Backend) {
			compute.Fill(b, compute.NewBlock(computetest.Naive(), 2, 2), 1)
		}},
		{"outside the buffer", "leaves its buffer", func(b compute.Backend) {
			x := compute.NewBlock(b, 2, 2)
			x.Offset = 1
			compute.Fill(b, x, 1)
		}},
		{"overlap in part", "overlaps", func(b compute.Backend) {
			x := compute.NewBlock(b, 4, 2)
			compute.Copy(b, x.RowRange(0, 3), x.RowRange(1, 4))
		}},
		{"product in place", "overlaps", func(b compute.Backend) {
			x := compute.NewBlock(b, 2, 2)
			b.Gemm(false, false, 1, x, x, 0, x)
		}},
		{"outer backend in a panel", "other than the one", func(b compute.Backend) {
			x := compute.NewBlock(b, 2, 2)
			b.Panels(2, func(compute.Backend, int, int, int) { compute.Fill(b, x, 1) })
		}},
		{"leak in a panel", "unreleased", func(b compute.Backend) {
			b.Panels(2, func(b compute.Backend, _, _, _ int) { b.Alloc(1) })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if message, _ := recover().(string); !strings.Contains(message, test.message) {
					t.Errorf("panic %q, want one with %q", message, test.message)
				}
			}()
			test.do(computetest.Opaque(computetest.Naive()))
		})
	}
}

func TestOpaqueAllowsSiblings(t *testing.T) {
	b := computetest.Opaque(computetest.Naive())
	x := compute.NewBlock(b, 4, 6)
	compute.Fill(b, x, 1)
	compute.Copy(b, x.ColRange(0, 3), x.ColRange(3, 6))
	compute.Copy(b, x.RowRange(0, 2), x.RowRange(2, 4))
	if n := b.Live(); n != 1 {
		t.Errorf("%d buffers live, want 1", n)
	}
}

func TestOpaquePoisons(t *testing.T) {
	b := computetest.Opaque(computetest.Naive())
	for _, v := range compute.ToSlice(b, compute.NewBlock(b, 3, 3)) {
		if !math.IsNaN(v) {
			t.Fatalf("new memory holds %v", v)
		}
	}
}
