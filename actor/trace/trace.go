// Package trace replays recorded traces: given an initial state and a sequence of actions, it records how a task
// responds. Tasks are compared with other implementations in this way, number by number.
//
// A trace file is an npz file with init_qpos, init_qvel (the engine's positions and velocities), actions
// (T x action), observations (T+1 x observation, the first at the initial state), rewards (T) and terminated (T;
// the trace continues after termination).
package trace

import (
	"fmt"

	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/sim"
)

// Replay plays the init_qpos, init_qvel and actions of a trace in env and returns the complete resulting trace.
// It ignores the given trace's observations, rewards and terminated.
func Replay(env sim.Env, from npz.Arrays) (npz.Arrays, error) {
	spec := env.Spec()
	setter, ok := env.(sim.StateSetter)
	if !ok {
		return nil, fmt.Errorf("the state of %s cannot be set", spec.Name)
	}
	qpos, err := from.Float64s("init_qpos", -1)
	if err != nil {
		return nil, err
	}
	qvel, err := from.Float64s("init_qvel", -1)
	if err != nil {
		return nil, err
	}
	actions, err := from.Float64s("actions", -1, spec.ActionDim)
	if err != nil {
		return nil, err
	}

	steps := len(actions) / spec.ActionDim
	observations := make([]float64, (steps+1)*spec.ObservationDim)
	rewards := make([]float64, steps)
	terminated := make([]bool, steps)
	if err := setter.SetState(qpos, qvel, row(observations, 0, spec.ObservationDim)); err != nil {
		return nil, fmt.Errorf("initial state: %w", err)
	}
	for t := range steps {
		action, observation := row(actions, t, spec.ActionDim), row(observations, t+1, spec.ObservationDim)
		if rewards[t], terminated[t], err = env.Step(action, observation); err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
	}
	return npz.Arrays{
		"init_qpos":    npz.Of(qpos, len(qpos)),
		"init_qvel":    npz.Of(qvel, len(qvel)),
		"actions":      npz.Of(actions, steps, spec.ActionDim),
		"observations": npz.Of(observations, steps+1, spec.ObservationDim),
		"rewards":      npz.Of(rewards, steps),
		"terminated":   npz.Of(terminated, steps),
	}, nil
}

// row returns row i of a matrix with the given number of columns.
func row(matrix []float64, i, columns int) []float64 {
	return matrix[i*columns : (i+1)*columns]
}
