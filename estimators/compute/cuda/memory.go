//go:build gpu

package cuda

import (
	"errors"
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"gorgonia.org/cu"
)

const float64Bytes = 8

// buffer is memory on the device.
type buffer struct {
	address  cu.DevicePtr
	length   int   // number of elements in use
	bytes    int64 // size allocated by the driver
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

// pool keeps released buffers by size. Since all work runs in the order of one stream, a
// buffer can be reused while the device still works with it.
type pool struct {
	free  map[int64][]*buffer // by bytes
	exact bool                // do not round sizes up, so that tests detect accesses out of bounds
	stats MemoryStats
}

// MemoryStats are statistics of the pool, in bytes except for Allocations.
type MemoryStats struct {
	InUse       int64 // in buffers that have not been released
	Reserved    int64 // allocated by the driver
	Peak        int64 // maximum of Reserved so far
	Allocations int   // number of allocations by the driver so far
}

// Memory returns statistics of the memory that the buffers occupy.
func (b *Backend) Memory() MemoryStats { return b.stats }

// PeakBytes returns the peak memory of all buffers, including those kept in the pool.
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

// take returns a free buffer or a new one from the driver.
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

// driverAlloc allocates x.bytes. It returns an error only if the device is out of memory.
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

// trim releases all free buffers and returns their size. cuMemFree waits for the work that
// uses them.
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

// closePool releases the free buffers. Others are freed with the context.
func (b *Backend) closePool() {
	for _, list := range b.free {
		for _, x := range list {
			_ = cu.MemFree(x.address)
		}
	}
	b.free = nil
}
