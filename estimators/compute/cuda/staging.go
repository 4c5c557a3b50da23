//go:build cuda

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

// staging are two page-locked buffers of the host, used by turns. Copies go through
// them: the device reads them by itself, without the processor and without Go memory
// that might be gone by then.
type staging struct {
	halves [2]stagingHalf
	turn   int
}

type stagingHalf struct {
	memory []float64 // the driver's, not Go's
	done   cu.Event  // the copy that used it last
}

// openStaging has the buffers from the driver. gorgonia.org/cu has no page-locked memory.
func (b *Backend) openStaging() {
	for i := range b.halves {
		half := &b.halves[i]
		b.do("cuMemHostAlloc", func() error {
			var p unsafe.Pointer
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
			cu.MemFreeHost(unsafe.Pointer(&half.memory[0]))
			if half.done != (cu.Event{}) {
				cu.DestroyEvent(&half.done)
			}
			half.memory = nil
		}
	}
}

// next is the buffer whose turn it is, once the copy that used it is done.
func (b *Backend) next() *stagingHalf {
	half := &b.halves[b.turn]
	b.turn = 1 - b.turn
	b.do("cuEventSynchronize", half.done.Synchronize)
	return half
}

// Upload implements [compute.Backend]. It does not wait for the device, but for an
// earlier upload where that still fills both staging buffers.
func (b *Backend) Upload(dst compute.Block, src []float64) {
	checkHost("Upload", dst, src)
	pieces(dst, func(piece compute.Block, first int) {
		half := b.next()
		copy(half.memory, src[first:first+piece.Rows*piece.Cols])
		b.do("an upload", func() error {
			if err := b.copyPiece(piece, half.memory, toDevice); err != nil {
				return err
			}
			return half.done.Record(b.stream)
		})
	})
}

// Download implements [compute.Backend]. It waits until all work before it is done.
func (b *Backend) Download(dst []float64, src compute.Block) {
	checkHost("Download", src, dst)
	pieces(src, func(piece compute.Block, first int) {
		half := b.next()
		b.do("a download", func() error {
			if err := b.copyPiece(piece, half.memory, toHost); err != nil {
				return err
			}
			return b.stream.Synchronize()
		})
		copy(dst[first:first+piece.Rows*piece.Cols], half.memory)
	})
}

func checkHost(op string, x compute.Block, host []float64) {
	if len(host) != x.Rows*x.Cols {
		panic(fmt.Sprintf("cuda: %s of %d elements and a %s block", op, len(host), x.Shape()))
	}
}

// pieces cuts a block into parts that fit a staging buffer, each with the row-major
// number of its first element: ranges of whole rows, or of one row's elements where
// the rows are one or longer than the buffer. A contiguous block is a single row.
func pieces(x compute.Block, body func(piece compute.Block, first int)) {
	if x.Rows == 0 || x.Cols == 0 {
		return
	}
	if x.Contiguous() {
		x = compute.Block{Buffer: x.Buffer, Offset: x.Offset, Rows: 1, Cols: x.Rows * x.Cols, Stride: x.Rows * x.Cols}
	}
	height, width := max(1, stagingElements/x.Cols), min(x.Cols, stagingElements)
	for i := 0; i < x.Rows; i += height {
		for j := 0; j < x.Cols; j += width {
			body(x.View(i, min(x.Rows, i+height), j, min(x.Cols, j+width)), i*x.Cols+j)
		}
	}
}

type direction bool

const (
	toDevice direction = false
	toHost   direction = true
)

// copyPiece starts a copy between a piece and the packed host memory.
func (b *Backend) copyPiece(x compute.Block, host []float64, way direction) error {
	at, p := address(x), unsafe.Pointer(&host[0])
	bytes := int64(x.Rows*x.Cols) * float64Bytes
	switch {
	case x.Rows > 1:
		return cu.Memcpy2DAsync(rectangle(x, at, p, way), b.stream)
	case way == toDevice:
		return cu.MemcpyHtoDAsync(at, p, bytes, b.stream)
	}
	return cu.MemcpyDtoHAsync(p, at, bytes, b.stream)
}

// rectangle describes the copy of several rows.
func rectangle(x compute.Block, at cu.DevicePtr, host unsafe.Pointer, way direction) cu.Memcpy2dParam {
	width, pitch := int64(x.Cols)*float64Bytes, int64(x.Stride)*float64Bytes
	if way == toDevice {
		return cu.Memcpy2dParam{
			Height: int64(x.Rows), WidthInBytes: width,
			SrcMemoryType: cu.HostMemory, SrcHost: host, SrcPitch: width,
			DstMemoryType: cu.DeviceMemory, DstDevice: at, DstPitch: pitch,
		}
	}
	return cu.Memcpy2dParam{
		Height: int64(x.Rows), WidthInBytes: width,
		SrcMemoryType: cu.DeviceMemory, SrcDevice: at, SrcPitch: pitch,
		DstMemoryType: cu.HostMemory, DstHost: host, DstPitch: width,
	}
}
