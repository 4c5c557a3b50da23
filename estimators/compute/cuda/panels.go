//go:build gpu

package cuda

import "github.com/dbqpg/dbqpg/estimators/compute"

// Distant implements [compute.Backend]: a Download waits for all earlier launches.
func (b *Backend) Distant() bool { return true }

// NumPanels implements [compute.Backend]: the device is fastest on the whole batch.
func (b *Backend) NumPanels(rows int) int { return 1 }

// Panels implements [compute.Backend]: one call with all rows.
func (b *Backend) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	body(b, 0, 0, rows)
}

var _ compute.Backend = (*Backend)(nil)
