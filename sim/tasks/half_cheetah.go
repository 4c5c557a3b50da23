package tasks

import (
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim/mujoco"
)

func init() { families["HalfCheetah"] = newHalfCheetah }

// newHalfCheetah is a two-legged runner in a plane, to run along x (Gymnasium's half_cheetah_v4.py,
// half_cheetah_v5.py).
//
// Observation (17): height and angle of the torso, the 6 joint angles, then all 9 velocities.
// Reward: forward velocity - 0.1 |action|². The episode never terminates.
func newHalfCheetah(*mujoco.Model, int) task {
	const noise, controlCost = 0.1, 0.1
	return task{
		perturb: func(rng *rand.Rand, qpos, qvel []float64) {
			addUniform(rng, qpos, noise)
			addNormal(rng, qvel, noise)
		},
		measure: x0,
		observe: func(d *mujoco.Data, observation []float64) {
			fill(observation, d.Positions()[1:], d.Velocities())
		},
		reward: func(s step) float64 {
			return s.velocity() - controlCost*sumSquares(s.action)
		},
	}
}
