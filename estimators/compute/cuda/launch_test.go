//go:build gpu

package cuda

import (
	"errors"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

func TestLaunch(t *testing.T) {
	b := opened(t)
	x := compute.FromSlice(b, 3, 4, make([]float64, 12))
	compute.Fill(b, x.View(1, 3, 1, 3), 2.5)
	want := []float64{0, 0, 0, 0, 0, 2.5, 2.5, 0, 0, 2.5, 2.5, 0}
	if got := compute.ToSlice(b, x); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	b.launch("k_affine", dim{0, 1, 1}, line(32), zeros("k_affine", b)...) // no blocks
	if allocs := testing.AllocsPerRun(20, func() { compute.Fill(b, x, 1) }); allocs != 0 {
		t.Errorf("a launch allocates %v times", allocs)
	}
}

// zeros returns arguments of the kernel's types.
func zeros(kernel string, b *Backend) (args []arg) {
	for _, kind := range []byte(b.kernels[kernel].params) {
		args = append(args, arg{0, kind})
	}
	return args
}

func TestLaunchMistakes(t *testing.T) {
	b := opened(t)
	args := zeros("k_affine", b)
	mistyped := slices.Clone(args)
	mistyped[0] = real(1)
	for name, f := range map[string]func(){
		"no such kernel": func() { b.launch("k_nothing", line(1), line(1)) },
		"too few":        func() { b.launch("k_affine", line(1), line(1), args[1:]...) },
		"too many":       func() { b.launch("k_affine", line(1), line(1), append(args, long(1))...) },
		"wrong type":     func() { b.launch("k_affine", line(1), line(1), mistyped...) },
	} {
		func() {
			defer func() {
				if _, ok := recover().(string); !ok {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	var refused *CallError
	err := failure(func() { b.launch("k_affine", line(1), line(4096), args...) })
	if !errors.As(err, &refused) || refused.Call != "the launch of k_affine" {
		t.Error(err)
	}
}

// The emulator finds what a GPU may forgive: one element beyond the buffer.
func TestIllegalAddress(t *testing.T) {
	onlyEmulated(t)
	b := opened(t)
	x := compute.NewBlock(b, 1, 5)
	x.Cols++
	var lost *DeviceLostError
	if err := failure(func() { compute.Fill(b, x, 1); b.synchronize() }); !errors.As(err, &lost) {
		t.Error(err)
	}
}

func TestEntries(t *testing.T) {
	got, err := entries(".visible .entry k_a(\n\t.param .u64 k_a_param_0,\n\t.param .f64 " +
		"k_a_param_1\n)\n{ }\n.visible .entry k_b()\n{}")
	if err != nil || len(got) != 2 || got["k_a"] != "uf" || got["k_b"] != "" {
		t.Error(got, err)
	}
	if _, err := entries(".visible .entry k_a(\n\t.param .u32 k_a_param_0\n)"); err == nil {
		t.Error("a parameter of four bytes is accepted")
	}
}
