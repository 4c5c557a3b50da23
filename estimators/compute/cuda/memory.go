//go:build gpu

package cuda

import (
	"errors"
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"gorgonia.org/cu"
)

const float64Bytes = 8

// buffer is memory of the device.
type buffer struct {
	address  cu.DevicePtr
	length   int   // of elements in use
	bytes    int64 // had from the driver
	released bool
}

// Len implements [compute.Buffer].
func (x *buffer) Len() int { return x.length }

// address returns the device address of the block's first element.
func address(x compute.Block) cu.DevicePtr {
	buf := x.Buffer.(*buffer)
	if buf.released {
		panic("cuda: a block's buffer is released")
	}
	return buf.address + cu.DevicePtr(float64Bytes*x.Offset)
}

// pool keeps what was released, by size. Since all work is in the order of one
// stream, a buffer may be handed out again while the device still uses it.
type pool struct {
	free  map[int64][]*buffer // by bytes
	exact bool                // sizes are not rounded up: tests find what reaches outside
	stats MemoryStats
}

// MemoryStats are the pool's figures, in bytes but for Allocations.
type MemoryStats struct {
	InUse       int64 // by buffers that are not released
	Reserved    int64 // had from the driver
	Peak        int64 // the most that Reserved has been
	Allocations int   // by the driver so far
}

// Memory tells what the buffers take of the device.
func (b *Backend) Memory() MemoryStats { return b.stats }

// PeakBytes returns the most memory that the buffers, used and kept, have taken.
func (b *Backend) PeakBytes() int64 { return b.stats.Peak }

// Alloc implements [compute.Backend].
func (b *Backend) Alloc(n int) compute.Buffer {
	if n < 0 {
		panic(fmt.Sprintf("cuda: Alloc of %d elements", n))
	}
	if n == 0 {
		return &buffer{}
	}
	bytes := float64Bytes * int64(n)
	if !b.exact {
		bytes = compute.SizeClass(bytes)
	}
	x := b.take(bytes)
	x.length, x.released = n, false
	b.stats.InUse += x.bytes
	return x
}

// take finds a free buffer or has one from the driver.
func (b *Backend) take(bytes int64) *buffer {
	if list := b.free[bytes]; len(list) > 0 {
		last := len(list) - 1
		b.free[bytes] = list[:last]
		return list[last]
	}
	x := &buffer{bytes: bytes}
	err := b.driverAlloc(x)
	if errors.Is(err, cu.OutOfMemory) && b.trim() > 0 {
		err = b.driverAlloc(x)
	}
	if errors.Is(err, cu.OutOfMemory) {
		fail(b.outOfMemory(bytes))
	}
	if err != nil {
		fail(explain("cuMemAlloc", err))
	}
	return x
}

// driverAlloc has x.bytes from the driver. Of errors it returns out of memory alone.
func (b *Backend) driverAlloc(x *buffer) (err error) {
	b.do("cuMemAlloc", func() error {
		x.address, err = cu.MemAlloc(x.bytes)
		return nil
	})
	if err == nil {
		b.stats.Allocations++
		b.stats.Reserved += x.bytes
		b.stats.Peak = max(b.stats.Peak, b.stats.Reserved)
	}
	return err
}

// trim gives all free buffers back to the driver and returns their size. cuMemFree
// waits for the work that uses them.
func (b *Backend) trim() (bytes int64) {
	for size, list := range b.free {
		for _, x := range list {
			b.do("cuMemFree", func() error { return cu.MemFree(x.address) })
			bytes += size
		}
	}
	clear(b.free)
	b.stats.Reserved -= bytes
	return bytes
}

func (b *Backend) outOfMemory(asked int64) error {
	e := &OutOfMemoryError{Asked: asked, InUse: b.stats.InUse}
	b.do("cuMemGetInfo", func() (err error) {
		e.Free, e.Total, err = cu.MemInfo()
		return err
	})
	return e
}

// Release implements [compute.Backend].
func (b *Backend) Release(buf compute.Buffer) {
	x := buf.(*buffer)
	if x.released {
		panic("cuda: a buffer is released twice")
	}
	if x.length == 0 {
		return
	}
	x.released = true
	if b.free == nil {
		b.free = map[int64][]*buffer{}
	}
	b.free[x.bytes] = append(b.free[x.bytes], x)
	b.stats.InUse -= x.bytes
}

// closePool gives the free buffers back. What was not released goes with the context.
func (b *Backend) closePool() {
	for _, list := range b.free {
		for _, x := range list {
			_ = cu.MemFree(x.address)
		}
	}
	b.free = nil
}
