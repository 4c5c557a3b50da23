package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

// newSwimmer is a chain of three links in a viscous fluid, to swim along x (Gymnasium's swimmer_v4.py).
//
// Observation (8): the angles of the torso and of the two joints, then all 5 velocities.
// Reward: forward velocity - 1e-4 |action|^2. The episode never terminates.
func newSwimmer(*mujoco.Model) task {
	const controlCost = 1e-4
	return task{
		perturb:  uniformNoise(0.1),
		position: x0,
		observe: func(d *mujoco.Data, observation []float64) {
			fill(observation, d.Positions()[2:], d.Velocities())
		},
		reward: func(_ *mujoco.Data, action []float64, velocity float64) float64 {
			return velocity - controlCost*sumSquares(action)
		},
	}
}
