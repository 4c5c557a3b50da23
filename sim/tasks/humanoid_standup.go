package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

// newHumanoidStandup is the humanoid lying on its back, to get up (Gymnasium's humanoidstandup_v4.py).
//
// Observation (376): see observeHumanoid.
// Reward: height of the torso / engine time step - 0.1 |action|^2 - min(5e-7 |external forces|^2, 10) + 1. The
// episode never terminates.
func newHumanoidStandup(m *mujoco.Model) task {
	const controlCost, impactCost, impactLimit = 0.1, 0.5e-6, 10
	timestep := m.Timestep()
	return task{
		perturb:  uniformNoise(0.01),
		position: x0,
		observe:  observeHumanoid,
		reward: func(d *mujoco.Data, action []float64, _ float64) float64 {
			impact := min(impactCost*sumSquares(d.ContactForces()), impactLimit)
			return d.Positions()[2]/timestep - controlCost*sumSquares(action) - impact + 1
		},
	}
}
