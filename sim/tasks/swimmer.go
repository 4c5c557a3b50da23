package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

func init() { families["Swimmer"] = newSwimmer }

// newSwimmer is a chain of three links in a viscous fluid, to swim along x (Gymnasium's swimmer_v4.py, swimmer_v5.py).
//
// Observation (8): the angles of the torso and of the two joints, then all 5 velocities.
// Reward: forward velocity - 1e-4 |action|². The episode never terminates.
func newSwimmer(*mujoco.Model, int) task {
	const controlCost = 1e-4
	return task{
		perturb: uniformNoise(0.1),
		measure: x0,
		observe: func(d *mujoco.Data, observation []float64) {
			fill(observation, d.Positions()[2:], d.Velocities())
		},
		reward: func(s step) float64 {
			return s.velocity() - controlCost*sumSquares(s.action)
		},
	}
}
