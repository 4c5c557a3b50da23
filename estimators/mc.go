package estimators

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// MonteCarlo sets dst (p × 1) to the mean of the scores times the targets
// (eqn:Monte-Carlo_PG),
//
//	g = U y / n
//
// for the scores u (p × n) and the targets y (n × 1).
func MonteCarlo(b compute.Backend, dst compute.Block, u linop.Operator, y compute.Block) {
	u.MulTo(dst, y, false)
	compute.Scale(b, 1/float64(y.Rows), dst)
}
