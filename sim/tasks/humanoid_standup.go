package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

func init() { families["HumanoidStandup"] = newHumanoidStandup }

// newHumanoidStandup is the humanoid lying on its back, to get up (Gymnasium's humanoidstandup_v4.py,
// humanoidstandup_v5.py).
//
// Observation (376, 376, 348): see observeHumanoid.
// Reward: height of the torso / engine time step - 0.1 |action|² - min(5e-7 |external forces|², 10) + 1. The
// episode never terminates.
func newHumanoidStandup(m *mujoco.Model, version int) task {
	const controlCost, impactCost, impactLimit = 0.1, 0.5e-6, 10
	timestep := m.Timestep()
	return task{
		contactForces: version >= 4,
		perturb:       uniformNoise(0.01),
		measure:       x0,
		observe:       observeHumanoid(version),
		reward: func(s step) float64 {
			impact := min(impactCost*sumSquares(s.ContactForces()), impactLimit)
			return s.Positions()[2]/timestep - controlCost*sumSquares(s.action) - impact + 1
		},
	}
}
