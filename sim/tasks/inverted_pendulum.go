package tasks

import (
	"math"

	"github.com/dbqpg/dbqpg/sim/mujoco"
)

func init() { families["InvertedPendulum"] = newInvertedPendulum }

// newInvertedPendulum is a pole on a cart, to be kept upright (Gymnasium's inverted_pendulum_v4.py,
// inverted_pendulum_v5.py).
//
// Observation (4): where the cart is and the pole's angle, then both velocities.
// Reward: 1; in v5 for steps that do not end the episode. The episode ends when the angle leaves [-0.2, 0.2] rad.
func newInvertedPendulum(_ *mujoco.Model, version int) task {
	return task{
		perturb: uniformNoise(0.01),
		measure: x0,
		observe: func(d *mujoco.Data, observation []float64) {
			fill(observation, d.Positions(), d.Velocities())
		},
		reward: func(s step) float64 { return s.alive(1, version) },
		healthy: func(d *mujoco.Data) bool {
			return within(math.Inf(1), d.Positions()) && within(math.Inf(1), d.Velocities()) &&
				math.Abs(d.Positions()[1]) <= 0.2
		},
	}
}
