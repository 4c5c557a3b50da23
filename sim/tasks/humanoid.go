package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

// newHumanoid is a walker with arms, to go along x without falling (Gymnasium's humanoid_v4.py).
//
// Observation (376): see observeHumanoid.
// Reward: 1.25 forward velocity of the center of mass + 5 - 0.1 |action|^2. The episode ends when the torso's
// height leaves (1, 2) m.
func newHumanoid(m *mujoco.Model) task {
	const forward, alive, controlCost = 1.25, 5, 0.1
	masses := m.BodyMass()
	total := 0.0
	for _, mass := range masses {
		total += mass
	}
	return task{
		perturb: uniformNoise(0.01),
		position: func(d *mujoco.Data) float64 {
			moment, centers := 0.0, d.BodyCenters()
			for body, mass := range masses {
				moment += mass * centers[3*body]
			}
			return moment / total
		},
		observe: observeHumanoid,
		reward: func(_ *mujoco.Data, action []float64, velocity float64) float64 {
			return forward*velocity + alive - controlCost*sumSquares(action)
		},
		healthy: func(d *mujoco.Data) bool {
			height := d.Positions()[2]
			return 1 < height && height < 2
		},
	}
}

// observeHumanoid writes both humanoid tasks' observation: height and orientation (a quaternion) of the torso and
// the 17 joint angles (22 together), all 23 velocities, the 14 bodies' inertias (140) and velocities (84), the
// actuators' forces (23) and the external forces on the bodies (84), which are zero in -v2.
func observeHumanoid(d *mujoco.Data, observation []float64) {
	fill(observation, d.Positions()[2:], d.Velocities(), d.BodyInertias(), d.BodyVelocities(), d.ActuatorForces(), d.ContactForces())
}
