package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

func init() { families["Hopper"] = newHopper }

// newHopper is a leg in a plane, to hop along x without falling (Gymnasium's hopper_v4.py, hopper_v5.py).
//
// Observation (11): height and angle of the torso, the 3 joint angles, then all 6 velocities clamped to ±10.
// Reward: see rewardPlanar. The episode ends when the torso is below 0.7 m, leans by 0.2 rad or anything else of the
// state leaves (-100, 100).
func newHopper(_ *mujoco.Model, version int) task {
	return task{
		perturb: uniformNoise(0.005),
		measure: x0,
		observe: observePlanar,
		reward:  rewardPlanar(version),
		healthy: func(d *mujoco.Data) bool {
			qpos := d.Positions()
			height, angle := qpos[1], qpos[2]
			return within(100, qpos[2:]) && within(100, d.Velocities()) && height > 0.7 && -0.2 < angle && angle < 0.2
		},
	}
}
