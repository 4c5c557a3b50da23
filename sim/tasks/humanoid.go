package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

func init() { families["Humanoid"] = newHumanoid }

// newHumanoid is a walker with arms, to go along x without falling (Gymnasium's humanoid_v4.py, humanoid_v5.py).
//
// Observation (376, 376, 348): see observeHumanoid.
// Reward: 1.25 forward velocity of the center of mass + 5 - 0.1 |action|²; in v5 also - min(5e-7 |external forces|²,
// 10), and the 5 is for steps that do not end the episode. The episode ends when the torso's height leaves (1, 2) m.
func newHumanoid(m *mujoco.Model, version int) task {
	const forward, healthy, controlCost, contactCost, contactLimit = 1.25, 5, 0.1, 5e-7, 10
	masses := m.BodyMass()
	total := 0.0
	for _, mass := range masses {
		total += mass
	}
	return task{
		contactForces: version >= 4,
		perturb:       uniformNoise(0.01),
		measure: func(d *mujoco.Data) float64 {
			moment, centers := 0.0, d.BodyCenters()
			for body, mass := range masses {
				moment += mass * centers[3*body]
			}
			return moment / total
		},
		observe: observeHumanoid(version),
		reward: func(s step) float64 {
			reward := forward*s.velocity() + s.alive(healthy, version) - controlCost*sumSquares(s.action)
			if version >= 5 {
				reward -= min(contactCost*sumSquares(s.ContactForces()), contactLimit)
			}
			return reward
		},
		healthy: func(d *mujoco.Data) bool {
			height := d.Positions()[2]
			return 1 < height && height < 2
		},
	}
}

// observeHumanoid returns what writes both humanoid tasks' observation: height and orientation (a quaternion) of the
// torso and the 17 joint angles (22 together), all 23 velocities, the 14 bodies' inertias (140) and velocities (84),
// the actuators' forces on the degrees of freedom (23) and the external forces on the bodies (84), which are zero in
// v2. In v5 without what is always zero: the world's inertia, velocity and forces, and the forces on the 6 degrees of
// freedom of the torso.
func observeHumanoid(version int) func(d *mujoco.Data, observation []float64) {
	var world, free int // how many bodies and degrees of freedom are left out
	if version >= 5 {
		world, free = 1, 6
	}
	return func(d *mujoco.Data, observation []float64) {
		fill(observation, d.Positions()[2:], d.Velocities(), d.BodyInertias()[10*world:], d.BodyVelocities()[6*world:],
			d.ActuatorForces()[free:], d.ContactForces()[6*world:])
	}
}
