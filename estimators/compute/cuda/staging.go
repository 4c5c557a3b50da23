//go:build gpu

package cuda

/*
#include <cuda.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"gorgonia.org/cu"
)

// stagingElements is the size of a staging buffer: 4 MiB, above which copies do not
// get faster.
const stagingElements = 512 << 10

// staging contains two page-locked host buffers, used alternately for copies. The device
// reads them without the CPU, and no copy reads Go memory that may have been freed. A
// block with gaps is packed on the device, in one launch: the driver's copies of rectangles
// are slow for short rows (and those of gorgonia.org/cu dereference a nil pointer).
type staging struct {
	halves [2]stagingHalf
	turn   int
}

type stagingHalf struct {
	memory []float64 // allocated by the driver, not by Go
	done   cu.Event  // completion of the copy that used it last
}

func (h *stagingHalf) pointer() unsafe.Pointer { return unsafe.Pointer(&h.memory[0]) }

// openStaging allocates the buffers. gorgonia.org/cu does not support page-locked memory.
func (b *Backend) openStaging() {
	for i := range b.halves {
		half := &b.halves[i]
		b.do("cuMemHostAlloc", func() error {
			var p unsafe.Pointer
			//nolint:gocritic // cgo's expansion of &p
			if code := C.cuMemHostAlloc(&p, stagingElements*float64Bytes, 0); code != C.CUDA_SUCCESS {
				return fmt.Errorf("code %d for %d bytes of page-locked memory", int(code), stagingElements*float64Bytes)
			}
			half.memory = unsafe.Slice((*float64)(p), stagingElements)
			return nil
		})
		b.do("cuEventCreate", func() (err error) {
			half.done, err = cu.MakeEvent(cu.DisableTiming)
			return err
		})
	}
}

func (b *Backend) closeStaging() {
	for i := range b.halves {
		if half := &b.halves[i]; half.memory != nil {
			_ = cu.MemFreeHost(half.pointer())
			if half.done != (cu.Event{}) {
				_ = cu.DestroyEvent(&half.done)
			}
			half.memory = nil
		}
	}
}

// next returns the next buffer, after the copy that used it is done.
func (b *Backend) next() *stagingHalf {
	half := &b.halves[b.turn]
	b.turn = 1 - b.turn
	b.do("cuEventSynchronize", half.done.Synchronize)
	return half
}

// Upload implements [compute.Backend]. It does not wait for the device, except while
// earlier uploads still use both staging buffers.
func (b *Backend) Upload(dst compute.Block, src []float64) {
	checkHost("Upload", dst, src)
	if !dst.Contiguous() {
		packed := compute.NewBlock(b, dst.Rows, dst.Cols)
		b.Upload(packed, src)
		compute.Copy(b, dst, packed)
		b.Release(packed.Buffer)
		return
	}
	for at := address(dst); len(src) > 0; at += float64Bytes * stagingElements {
		half := b.next()
		n := copy(half.memory, src)
		b.do("an upload", func() error {
			if err := cu.MemcpyHtoDAsync(at, half.pointer(), int64(n)*float64Bytes, b.stream); err != nil {
				return err
			}
			return half.done.Record(b.stream)
		})
		src = src[n:]
	}
}

// Download implements [compute.Backend]. It waits until all work before it is done.
func (b *Backend) Download(dst []float64, src compute.Block) {
	checkHost("Download", src, dst)
	if !src.Contiguous() {
		packed := compute.NewBlock(b, src.Rows, src.Cols)
		compute.Copy(b, packed, src)
		b.Download(dst, packed)
		b.Release(packed.Buffer)
		return
	}
	for at := address(src); len(dst) > 0; at += float64Bytes * stagingElements {
		half := b.next()
		n := min(len(dst), len(half.memory))
		b.do("a download", func() error {
			if err := cu.MemcpyDtoHAsync(half.pointer(), at, int64(n)*float64Bytes, b.stream); err != nil {
				return err
			}
			return b.stream.Synchronize()
		})
		copy(dst[:n], half.memory)
		dst = dst[n:]
	}
}

func checkHost(op string, x compute.Block, host []float64) {
	if len(host) != x.Rows*x.Cols {
		panic(fmt.Sprintf("cuda: %s of %d elements and a %s block", op, len(host), x.Shape()))
	}
}
