package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

// newWalker2d is a pair of legs in a plane, to walk along x without falling (Gymnasium's walker2d_v4.py).
//
// Observation (17): height and angle of the torso, the 6 joint angles, then all 9 velocities clamped to +-10.
// Reward: forward velocity + 1 - 1e-3 |action|^2. The episode ends when the torso's height leaves (0.8, 2) m or
// its angle (-1, 1) rad.
func newWalker2d(*mujoco.Model) task {
	return task{
		perturb:  uniformNoise(0.005),
		position: x0,
		observe:  observePlanar,
		reward:   rewardPlanar,
		healthy: func(d *mujoco.Data) bool {
			height, angle := d.Positions()[1], d.Positions()[2]
			return 0.8 < height && height < 2 && -1 < angle && angle < 1
		},
	}
}
