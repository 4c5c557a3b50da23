package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

func init() { families["Walker2d"] = newWalker2d }

// newWalker2d is a pair of legs in a plane, to walk along x without falling (Gymnasium's walker2d_v4.py,
// walker2d_v5.py). In v5 both feet have a friction of 1.9, before it was 0.9 for the right one.
//
// Observation (17): height and angle of the torso, the 6 joint angles, then all 9 velocities clamped to ±10.
// Reward: see rewardPlanar. The episode ends when the torso's height leaves (0.8, 2) m or its angle (-1, 1) rad.
func newWalker2d(_ *mujoco.Model, version int) task {
	return task{
		perturb: uniformNoise(0.005),
		measure: x0,
		observe: observePlanar,
		reward:  rewardPlanar(version),
		healthy: func(d *mujoco.Data) bool {
			height, angle := d.Positions()[1], d.Positions()[2]
			return 0.8 < height && height < 2 && -1 < angle && angle < 1
		},
	}
}
