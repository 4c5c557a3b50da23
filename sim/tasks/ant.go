package tasks

import (
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim/mujoco"
)

// newAnt is a four-legged walker, to go along x without falling or jumping (Gymnasium's ant_v4.py with
// use_contact_forces).
//
// Observation (111): height and orientation (a quaternion) of the torso, the 8 joint angles, all 14 velocities,
// then the external forces on the 14 bodies clamped to +-1, which are zero in -v2.
// Reward: forward velocity + 1 - 0.5 |action|^2 - 5e-4 |clamped forces|^2. The episode ends when the torso's
// height leaves [0.2, 1] m.
func newAnt(m *mujoco.Model) task {
	const noise, controlCost, contactCost, forceLimit = 0.1, 0.5, 5e-4, 1
	torso := mustBody(m, "torso")
	return task{
		perturb: func(rng *rand.Rand, qpos, qvel []float64) {
			addUniform(rng, qpos, noise)
			addNormal(rng, qvel, noise)
		},
		position: func(d *mujoco.Data) float64 { return d.BodyPositions()[3*torso] },
		observe: func(d *mujoco.Data, observation []float64) {
			position, velocity, forces := d.Positions()[2:], d.Velocities(), d.ContactForces()
			fill(observation, position, velocity)
			fillClamped(observation[len(position)+len(velocity):], forces, forceLimit)
		},
		reward: func(d *mujoco.Data, action []float64, velocity float64) float64 {
			forces := 0.0
			for _, f := range d.ContactForces() {
				f = min(max(f, -forceLimit), forceLimit)
				forces += f * f
			}
			return velocity + 1 - (controlCost*sumSquares(action) + contactCost*forces)
		},
		healthy: func(d *mujoco.Data) bool {
			height := d.Positions()[2]
			return within(math.Inf(1), d.Positions()) && within(math.Inf(1), d.Velocities()) && 0.2 <= height && height <= 1
		},
	}
}
