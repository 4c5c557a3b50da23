package tasks

import (
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim/mujoco"
)

// What several tasks share.

// addUniform adds noise from [-scale, scale) to each element of v.
func addUniform(rng *rand.Rand, v []float64, scale float64) {
	for i := range v {
		v[i] += scale * (2*rng.Float64() - 1)
	}
}

// addNormal adds noise of the given standard deviation to each element of v.
func addNormal(rng *rand.Rand, v []float64, scale float64) {
	for i := range v {
		v[i] += scale * rng.NormFloat64()
	}
}

// uniformNoise returns a perturb function that adds noise from [-scale, scale) to positions and velocities.
func uniformNoise(scale float64) func(rng *rand.Rand, qpos, qvel []float64) {
	return func(rng *rand.Rand, qpos, qvel []float64) {
		addUniform(rng, qpos, scale)
		addUniform(rng, qvel, scale)
	}
}

// x0 is the first position: where a robot with a sliding root is along x.
func x0(d *mujoco.Data) float64 { return d.Positions()[0] }

// sumSquares returns |v|^2.
func sumSquares(v []float64) (sum float64) {
	for _, x := range v {
		sum += x * x
	}
	return sum
}

// fill copies the parts one after another into observation.
func fill(observation []float64, parts ...[]float64) {
	for _, part := range parts {
		observation = observation[copy(observation, part):]
	}
}

// fillClamped copies v into observation, each element clamped to [-limit, limit].
func fillClamped(observation, v []float64, limit float64) {
	for i, x := range v {
		observation[i] = min(max(x, -limit), limit)
	}
}

// within reports whether each element of v is in (-limit, limit); NaN is not.
func within(limit float64, v []float64) bool {
	for _, x := range v {
		if !(-limit < x && x < limit) {
			return false
		}
	}
	return true
}

// observePlanar writes the hopper's and the walker's observation: all positions but the first, then the
// velocities clamped to ±10.
func observePlanar(d *mujoco.Data, observation []float64) {
	position := d.Positions()[1:]
	fill(observation, position)
	fillClamped(observation[len(position):], d.Velocities(), 10)
}

// rewardPlanar is the hopper's and the walker's: forward velocity + 1 - 1e-3 |action|²; in v5 the 1 is for steps that
// do not end the episode.
func rewardPlanar(version int) func(s step) float64 {
	return func(s step) float64 {
		return s.velocity() + s.alive(1, version) - 1e-3*sumSquares(s.action)
	}
}

// mustBody returns the index of a body that the task's model has.
func mustBody(m *mujoco.Model, name string) int {
	index, ok := m.Body(name)
	if !ok {
		panic("tasks: the model has no body " + name)
	}
	return index
}
