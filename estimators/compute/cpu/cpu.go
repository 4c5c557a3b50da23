// Package cpu is the compute backend for CPUs: OpenBLAS for matrix products, a few C
// kernels for the other operations, and one goroutine per core, over panels of rows.
//
// OpenBLAS uses a single thread, and Go distributes the work: only then does the order of
// each summation depend on the shapes alone, so that runs are bit-identical on any number
// of cores. Linking this package also registers OpenBLAS with gonum's blas64 and lapack64,
// which accelerates the small dense algebra on the host (eigenpairs and Cholesky factors
// of a few hundred rows).
package cpu

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// panelRows is the height of a panel: tall enough for matrix products at full
// speed, low enough that a panel of a few 64-column blocks stays in a core's
// second-level cache.
const panelRows = 512

// Backend implements [compute.Backend].
type Backend struct {
	serial            // the operations, in the calling goroutine
	workers []*serial // one per core, each with its own pool
}

var _ compute.Backend = (*Backend)(nil)

// New returns a backend that uses up to the given number of goroutines at a time; zero
// means GOMAXPROCS. Results do not depend on it.
func New(workers int) *Backend {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	b := &Backend{}
	for range workers {
		b.workers = append(b.workers, &serial{})
	}
	return b
}

// Name implements [compute.Backend].
func (b *Backend) Name() string { return fmt.Sprintf("cpu (%s, %d cores)", blasName, len(b.workers)) }

// Panels implements [compute.Backend].
func (b *Backend) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	b.split(b.NumPanels(rows), func(s *serial, panel int) {
		body(s, panel, panel*panelRows, min(rows, (panel+1)*panelRows))
	})
}

// buffer is memory of the backend: a slice that only this package accesses.
type buffer struct{ data []float64 }

// Len implements [compute.Buffer].
func (b *buffer) Len() int { return len(b.data) }

// pool keeps released buffers by their [compute.SizeClass].
type pool struct {
	mutex sync.Mutex
	free  map[int][]*buffer // by capacity
}

// Alloc implements [compute.Backend].
func (p *pool) Alloc(n int) compute.Buffer {
	class := int(compute.SizeClass(int64(8*n)) / 8)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if list := p.free[class]; len(list) > 0 {
		last := list[len(list)-1]
		p.free[class] = list[:len(list)-1]
		last.data = last.data[:n]
		return last
	}
	return &buffer{make([]float64, n, class)}
}

// Release implements [compute.Backend].
func (p *pool) Release(x compute.Buffer) {
	b := x.(*buffer)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.free == nil {
		p.free = map[int][]*buffer{}
	}
	p.free[cap(b.data)] = append(p.free[cap(b.data)], b)
}

// elements returns the part of the buffer from the block's first to its last element.
func elements(x compute.Block) []float64 {
	if x.Rows == 0 || x.Cols == 0 {
		return nil
	}
	return x.Buffer.(*buffer).data[x.Offset : x.Offset+(x.Rows-1)*x.Stride+x.Cols]
}

// Operations on few elements run in the calling goroutine: waking another costs
// more than it saves.
const serialElements = 1 << 14

// rows distributes body over panels of an n-row, k-column operation whose rows are
// independent.
func (b *Backend) rows(n, k int, body func(s *serial, lo, hi int)) {
	if n*k <= serialElements || n <= panelRows {
		body(b.workers[0], 0, n)
		return
	}
	b.split(b.NumPanels(n), func(s *serial, i int) { body(s, i*panelRows, min(n, (i+1)*panelRows)) })
}

// reduce sets dst (contiguous) to a sum over n rows: body writes the part of rows
// [lo, hi) to its dst. The parts are at most sixteen and are added in order.
func (b *Backend) reduce(n int, dst compute.Block, body func(s *serial, lo, hi int, dst compute.Block)) {
	const most = 16
	parts := min(most, b.NumPanels(n))
	if parts <= 1 {
		body(b.workers[0], 0, n, dst)
		return
	}
	height := (n + parts - 1) / parts
	scope := compute.NewScope(b)
	defer scope.Release()
	all := scope.New(parts, dst.Rows*dst.Cols)
	b.split(parts, func(s *serial, i int) {
		body(s, min(n, i*height), min(n, (i+1)*height), all.Row(i).Reshape(dst.Rows, dst.Cols))
	})
	b.SumRows(dst.Reshape(1, all.Cols), all)
}

// columns distributes body over ranges of n columns.
func (b *Backend) columns(n int, body func(s *serial, lo, hi int)) {
	const width = 256
	b.split((n+width-1)/width, func(s *serial, i int) { body(s, i*width, min(n, (i+1)*width)) })
}

func checkRow(op string, row, x compute.Block) {
	if row.Rows != 1 || row.Cols != x.Cols {
		panic(fmt.Sprintf("cpu: %s of a %s row and a %s block", op, row.Shape(), x.Shape()))
	}
}

func checkColumn(op string, column, x compute.Block) {
	if column.Cols != 1 || column.Rows != x.Rows {
		panic(fmt.Sprintf("cpu: %s of a %s column and a %s block", op, column.Shape(), x.Shape()))
	}
}

func checkGrid(op string, g compute.Grid, table compute.Block) {
	if table.Rows != g.Size || g.Size < 4 || !(g.Step > 0) || math.IsInf(g.Low, 0) {
		panic(fmt.Sprintf("cpu: %s of a %s table and the grid %+v", op, table.Shape(), g))
	}
}

func checkInterpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	onGrid, atPoints := x, dst
	if trans {
		onGrid, atPoints = dst, x
	}
	checkGrid("interpolate", g, onGrid)
	checkColumn("interpolate", z, atPoints)
	checkRow("interpolate", onGrid.Row(0), atPoints)
}
