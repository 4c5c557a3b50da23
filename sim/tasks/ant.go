package tasks

import (
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim/mujoco"
)

func init() { families["Ant"] = newAnt }

// newAnt is a four-legged walker, to go along x without falling or jumping (Gymnasium's ant_v4.py, ant_v5.py).
//
// Observation (111, 27, 105): height and orientation (a quaternion) of the torso, the 8 joint angles, all 14
// velocities, then, clamped to ±1, the external forces on the 14 bodies (v2, all zero), none (v4), or on the 13
// bodies without the world (v5).
// Reward: forward velocity + 1 - 0.5 |action|² - 5e-4 |clamped forces|², the forces in v5 alone, where the 1 is for
// steps that do not end the episode. The episode ends when the torso's height leaves [0.2, 1] m.
func newAnt(m *mujoco.Model, version int) task {
	const noise, controlCost, contactCost, forceLimit = 0.1, 0.5, 5e-4, 1
	torso := mustBody(m, "torso")
	forces := func(d *mujoco.Data) []float64 { return nil }
	switch version {
	case 2:
		forces = (*mujoco.Data).ContactForces
	case 5:
		forces = func(d *mujoco.Data) []float64 { return d.ContactForces()[6:] }
	}
	return task{
		contactForces: version == 5,
		perturb: func(rng *rand.Rand, qpos, qvel []float64) {
			addUniform(rng, qpos, noise)
			addNormal(rng, qvel, noise)
		},
		measure: func(d *mujoco.Data) float64 { return d.BodyPositions()[3*torso] },
		observe: func(d *mujoco.Data, observation []float64) {
			position, velocity := d.Positions()[2:], d.Velocities()
			fill(observation, position, velocity)
			fillClamped(observation[len(position)+len(velocity):], forces(d), forceLimit)
		},
		reward: func(s step) float64 {
			squares := 0.0
			for _, f := range forces(s.Data) {
				f = min(max(f, -forceLimit), forceLimit)
				squares += f * f
			}
			return s.velocity() + s.alive(1, version) - (controlCost*sumSquares(s.action) + contactCost*squares)
		},
		healthy: func(d *mujoco.Data) bool {
			height := d.Positions()[2]
			return within(math.Inf(1), d.Positions()) && within(math.Inf(1), d.Velocities()) && 0.2 <= height &&
				height <= 1
		},
	}
}
