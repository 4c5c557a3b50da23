package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// wait waits until a distant device has done all it was told.
func wait(b compute.Backend) {
	if !b.Distant() {
		return
	}
	s := compute.NewScope(b)
	defer s.Release()
	var element [1]float64
	b.Download(element[:], s.FromSlice(1, 1, element[:]))
}

// printProducts says how near to the device's own rate the matrix products of an update come: all of them, large and
// small, each waited for. A processor's products are timed by its stages.
func printProducts(w io.Writer, b compute.Backend, all []*measured) error {
	if !b.Distant() {
		return nil
	}
	const size = 4096
	rate := gemm(b, size, size, size)
	fmt.Fprintf(w, "  matrix products      %8.1f GFLOP/s (%d x %d by %d x %d)\n", rate, size, size, size, size)
	for _, m := range all {
		timer := &productTimer{Backend: b}
		if _, err := m.do(timer, nil); err != nil {
			return err
		}
		got := timer.flops / 1e9 / timer.took.Seconds()
		fmt.Fprintf(w, "    %-18s %8.1f ms   %6.1f GFLOP   %6.1f GFLOP/s   %.0f %% of that\n",
			m.name(), milliseconds(timer.took), timer.flops/1e9, got, 100*got/rate)
	}
	return nil
}

// productTimer is a distant backend whose matrix products are timed one by one.
type productTimer struct {
	compute.Backend
	took  time.Duration
	flops float64
}

func (t *productTimer) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	t.Backend.Panels(rows, func(_ compute.Backend, panel, lo, hi int) { body(t, panel, lo, hi) })
}

func (t *productTimer) Gemm(transA, transB bool, alpha float64, x, y compute.Block, beta float64, z compute.Block) {
	t.time(2*float64(x.Rows)*float64(x.Cols)*float64(z.Cols),
		func() { t.Backend.Gemm(transA, transB, alpha, x, y, beta, z) })
}

func (t *productTimer) Gram(dst, x compute.Block) {
	t.time(float64(x.Rows)*float64(x.Cols)*float64(x.Cols+1), func() { t.Backend.Gram(dst, x) })
}

func (t *productTimer) time(flops float64, product func()) {
	wait(t.Backend)
	start := time.Now()
	product()
	wait(t.Backend)
	t.took += time.Since(start)
	t.flops += flops
}
