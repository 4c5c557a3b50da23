package estimators

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// DBQPG sets dst (p × 1) to the posterior mean of the policy gradient (eq:GP_grad),
//
//	g = c2 U alpha,  alpha = (c1 K_s + c2 K_f + sigma² I)^-1 y
//
// for the scores u (p × n) and the posterior's alpha (n × 1; gp.Posterior.Alpha).
func DBQPG(b compute.Backend, dst compute.Block, u linop.Operator, c2 float64, alpha compute.Block) {
	u.MulTo(dst, alpha, false)
	compute.Scale(b, c2, dst)
}
