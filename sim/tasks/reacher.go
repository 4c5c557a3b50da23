package tasks

import (
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim/mujoco"
)

func init() { families["Reacher"] = newReacher }

// newReacher is an arm of two links in a plane, to bring its fingertip to a target within its reach (Gymnasium's
// reacher_v4.py, reacher_v5.py). Where the target is are the last two positions.
//
// Observation (11, 11, 10): the cosines and the sines of both angles, where the target is, both angular velocities,
// then the vector from the target to the fingertip, in v5 without its height, which is always 0.
// Reward: - distance from the target - |action|², the distance before the step; in v5 after it. The episode never
// terminates.
func newReacher(m *mujoco.Model, version int) task {
	const noise, speed, reach = 0.1, 0.005, 0.2
	fingertip, target := mustBody(m, "fingertip"), mustBody(m, "target")
	apart := func(d *mujoco.Data) (difference [3]float64) {
		for i := range difference {
			difference[i] = d.BodyPositions()[3*fingertip+i] - d.BodyPositions()[3*target+i]
		}
		return difference
	}
	return task{
		perturb: func(rng *rand.Rand, qpos, qvel []float64) {
			addUniform(rng, qpos, noise)
			addUniform(rng, qvel, speed)
			clear(qvel[2:])
			for goal := qpos[2:]; ; {
				clear(goal)
				addUniform(rng, goal, reach)
				if sumSquares(goal) < reach*reach {
					return
				}
			}
		},
		measure: func(d *mujoco.Data) float64 {
			difference := apart(d)
			return math.Sqrt(sumSquares(difference[:]))
		},
		observe: func(d *mujoco.Data, observation []float64) {
			angles, difference := d.Positions()[:2], apart(d)
			for i, angle := range angles {
				observation[i], observation[2+i] = math.Cos(angle), math.Sin(angle)
			}
			fill(observation[4:], d.Positions()[2:], d.Velocities()[:2], difference[:])
		},
		reward: func(s step) float64 {
			distance := s.before
			if version >= 5 {
				distance = s.after
			}
			return -distance - sumSquares(s.action)
		},
	}
}
