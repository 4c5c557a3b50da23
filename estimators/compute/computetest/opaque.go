package computetest

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// OpaqueBackend computes with the backend that it wraps, but its buffers reveal only
// their size, as on a device whose memory the host cannot read. It panics if a caller
//
//   - passes a block of another backend, or one that leaves its buffer,
//   - uses a buffer after its release, or releases it twice,
//   - lets dst overlap an argument in part,
//   - uses the outer backend inside Panels, or leaves a panel without releasing
//     what it allocated there;
//
// It fills new buffers with NaN to expose reads of undefined contents.
type OpaqueBackend struct {
	wrapped compute.Backend
	heap    *opaqueHeap
	panel   bool         // passed to a body of Panels
	held    atomic.Int64 // number of buffers allocated through this backend and not released
	busy    atomic.Int64 // number of calls of Panels in progress
}

// opaqueHeap maps each live handle to the wrapped backend's buffer. The panels'
// backends share it.
type opaqueHeap struct {
	mu   sync.Mutex
	live map[*handle]opaqueCell
}

type opaqueCell struct {
	buffer compute.Buffer
	owner  *OpaqueBackend
}

// handle is a buffer without memory.
type handle struct{ size int }

func (h *handle) Len() int { return h.size }

// Opaque wraps b. Blocks of b and of its wrapper cannot be mixed.
func Opaque(b compute.Backend) *OpaqueBackend {
	return &OpaqueBackend{wrapped: b, heap: &opaqueHeap{live: make(map[*handle]opaqueCell)}}
}

// Live returns the number of buffers allocated and not yet released.
func (o *OpaqueBackend) Live() int {
	o.heap.mu.Lock()
	defer o.heap.mu.Unlock()
	return len(o.heap.live)
}

// Name returns the name of the wrapped backend, marked.
func (o *OpaqueBackend) Name() string { return "opaque " + o.wrapped.Name() }

// Distant returns true, so that tests cover the code for distant devices.
func (o *OpaqueBackend) Distant() bool { return true }

// Alloc returns a handle to memory filled with NaN.
func (o *OpaqueBackend) Alloc(n int) compute.Buffer {
	o.idle()
	buffer := o.wrapped.Alloc(n)
	if buffer.Len() != n {
		panic(fmt.Sprintf("computetest: Alloc(%d) returned a buffer of %d", n, buffer.Len()))
	}
	compute.Fill(o.wrapped, compute.Block{Buffer: buffer, Rows: 1, Cols: n, Stride: n}, math.NaN())
	h := &handle{n}
	o.heap.mu.Lock()
	defer o.heap.mu.Unlock()
	o.heap.live[h] = opaqueCell{buffer, o}
	o.held.Add(1)
	return h
}

// Release forgets a handle.
func (o *OpaqueBackend) Release(buffer compute.Buffer) {
	o.idle()
	cell := o.cell(buffer)
	o.heap.mu.Lock()
	delete(o.heap.live, buffer.(*handle))
	o.heap.mu.Unlock()
	cell.owner.held.Add(-1)
	o.wrapped.Release(cell.buffer)
}

// Upload copies src to dst.
func (o *OpaqueBackend) Upload(dst compute.Block, src []float64) { o.wrapped.Upload(o.open(dst), src) }

// Download copies src to dst.
func (o *OpaqueBackend) Download(dst []float64, src compute.Block) {
	o.wrapped.Download(dst, o.open(src))
}

// NumPanels returns that of the wrapped backend.
func (o *OpaqueBackend) NumPanels(rows int) int { return o.wrapped.NumPanels(rows) }

// Panels wraps the backend that each body is given.
func (o *OpaqueBackend) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	o.idle()
	o.busy.Add(1)
	defer o.busy.Add(-1)
	o.wrapped.Panels(rows, func(b compute.Backend, panel, lo, hi int) {
		inner := &OpaqueBackend{wrapped: b, heap: o.heap, panel: true}
		body(inner, panel, lo, hi)
		if n := inner.held.Load(); n != 0 {
			panic(fmt.Sprintf("computetest: panel %d ends with %d buffers unreleased", panel, n))
		}
	})
}

// idle panics while a Panels of o runs.
func (o *OpaqueBackend) idle() {
	if o.busy.Load() != 0 {
		panic("computetest: a body of Panels used a backend other than the one it was given")
	}
}

// cell finds the live cell of a buffer.
func (o *OpaqueBackend) cell(buffer compute.Buffer) opaqueCell {
	h, ok := buffer.(*handle)
	if !ok {
		panic(fmt.Sprintf("computetest: a buffer of another backend (%T)", buffer))
	}
	o.heap.mu.Lock()
	defer o.heap.mu.Unlock()
	cell, ok := o.heap.live[h]
	if !ok {
		panic(fmt.Sprintf("computetest: a buffer of %d numbers was used after its release, "+
			"or belongs to another backend", h.size))
	}
	return cell
}

// open returns the wrapped backend's block of x.
func (o *OpaqueBackend) open(x compute.Block) compute.Block {
	o.idle()
	cell := o.cell(x.Buffer)
	if x.Offset < 0 || x.Stride < x.Cols || end(x) > cell.buffer.Len() {
		panic(fmt.Sprintf("computetest: a %s block at %d, stride %d, leaves its buffer of %d numbers",
			x.Shape(), x.Offset, x.Stride, cell.buffer.Len()))
	}
	x.Buffer = cell.buffer
	return x
}

// end returns the position after x's last element, 0 if it has none.
func end(x compute.Block) int {
	if x.Rows == 0 || x.Cols == 0 {
		return 0
	}
	return x.Offset + (x.Rows-1)*x.Stride + x.Cols
}

// apart opens dst, and panics if it overlaps one of args.
func (o *OpaqueBackend) apart(op string, dst compute.Block, args ...compute.Block) compute.Block {
	for _, x := range args {
		if overlap(dst, x) {
			panic(fmt.Sprintf("computetest: dst of %s overlaps an argument", op))
		}
	}
	return o.open(dst)
}

// same opens dst, and panics if it overlaps one of args in part.
func (o *OpaqueBackend) same(op string, dst compute.Block, args ...compute.Block) compute.Block {
	opened := o.open(dst)
	for _, x := range args {
		if x != dst && overlap(dst, x) {
			panic(fmt.Sprintf("computetest: dst of %s overlaps an argument in part", op))
		}
	}
	return opened
}

// overlap reports whether x and y share elements. Views of different strides are
// treated as the ranges of memory that they span.
func overlap(x, y compute.Block) bool {
	if x.Buffer != y.Buffer || x.Offset >= end(y) || y.Offset >= end(x) {
		return false
	}
	if x.Stride != y.Stride {
		return true
	}
	xRow, xCol, yRow, yCol := x.Offset/x.Stride, x.Offset%x.Stride, y.Offset/y.Stride, y.Offset%y.Stride
	if xCol+x.Cols > x.Stride || yCol+y.Cols > y.Stride {
		return true // a reshaped vector, whose rows are not those of one matrix with the other's
	}
	return xRow < yRow+y.Rows && yRow < xRow+x.Rows && xCol < yCol+y.Cols && yCol < xCol+x.Cols
}
