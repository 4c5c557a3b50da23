package tasks

import (
	"github.com/dbqpg/dbqpg/sim/mujoco"
)

// newHopper is a leg in a plane, to hop along x without falling (Gymnasium's hopper_v4.py).
//
// Observation (11): height and angle of the torso, the 3 joint angles, then all 6 velocities clamped to +-10.
// Reward: forward velocity + 1 - 1e-3 |action|^2. The episode ends when the torso is below 0.7 m, leans by 0.2 rad
// or anything else of the state leaves (-100, 100).
func newHopper(*mujoco.Model) task {
	return task{
		perturb:  uniformNoise(0.005),
		position: x0,
		observe:  observePlanar,
		reward:   rewardPlanar,
		healthy: func(d *mujoco.Data) bool {
			qpos := d.Positions()
			height, angle := qpos[1], qpos[2]
			return within(100, qpos[2:]) && within(100, d.Velocities()) && height > 0.7 && -0.2 < angle && angle < 0.2
		},
	}
}
