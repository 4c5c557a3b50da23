package tasks

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/sim"
)

// Gymnasium's own answers are checked in golden_test.go; here is what holds for every task.

// forEach runs a test on a new environment of each task.
func forEach(t *testing.T, test func(t *testing.T, e *env)) {
	for _, spec := range sim.Tasks() {
		t.Run(spec.Name, func(t *testing.T) {
			e := open(t, spec.Name)
			if !reflect.DeepEqual(e.Spec(), spec) {
				t.Fatalf("spec %v, want %v", e.Spec(), spec)
			}
			test(t, e)
		})
	}
}

func open(t testing.TB, name string) *env {
	t.Helper()
	e, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*env)
}

// play runs an episode of random actions, some beyond the control range, and returns all numbers that come back:
// the observation, reward and terminated of each step.
func play(t testing.TB, e sim.Env, seed uint64, steps int) []float64 {
	t.Helper()
	rng := streams.New(seed, streams.Episode)
	observation, action := make([]float64, e.Spec().ObservationDim), make([]float64, e.Spec().ActionDim)
	if err := e.Reset(rng, observation); err != nil {
		t.Error(err)
	}
	all := slices.Clone(observation)
	for range steps {
		for i := range action {
			action[i] = rng.NormFloat64()
		}
		reward, terminated, err := e.Step(action, observation)
		if err != nil {
			t.Error(err)
		}
		all = append(all, observation...)
		all = append(all, reward, map[bool]float64{true: 1}[terminated])
	}
	return all
}

func TestDimensions(t *testing.T) {
	forEach(t, func(t *testing.T, e *env) {
		if e.model.NumControls() != e.spec.ActionDim {
			t.Errorf("%d controls, want %d", e.model.NumControls(), e.spec.ActionDim)
		}
		if low, high := e.model.ControlBounds(); !slices.Equal(low, e.spec.Low) || !slices.Equal(high, e.spec.High) {
			t.Errorf("controls from %v to %v, want %v to %v", low, high, e.spec.Low, e.spec.High)
		}
		if limit := recorded(t, e, "time_limit", 1); limit[0] != float64(e.spec.TimeLimit) {
			t.Errorf("time limit %d, want %v", e.spec.TimeLimit, limit)
		}
		// Every element is written, by Reset and by Step.
		observation := slices.Repeat([]float64{math.NaN()}, e.spec.ObservationDim)
		if err := e.Reset(rand.New(rand.NewPCG(1, 1)), observation); err != nil ||
			slices.ContainsFunc(observation, math.IsNaN) {
			t.Errorf("reset: %v, %v", err, observation)
		}
		observation = slices.Repeat([]float64{math.NaN()}, e.spec.ObservationDim)
		if _, _, err := e.Step(make([]float64, e.spec.ActionDim), observation); err != nil ||
			slices.ContainsFunc(observation, math.IsNaN) {
			t.Errorf("step: %v, %v", err, observation)
		}
	})
}

// An episode is a function of its stream and its actions: the same bits whatever was played in between, in this
// instance or another.
func TestEpisodesRepeat(t *testing.T) {
	forEach(t, func(t *testing.T, e *env) {
		first := play(t, e, 1, 60)
		other := play(t, e, 2, 25)
		again := play(t, e, 1, 60)
		elsewhere := play(t, open(t, e.spec.Name), 1, 60)
		if !slices.Equal(first, again) {
			t.Error("the same stream gave another episode after one was played in between")
		}
		if !slices.Equal(first, elsewhere) {
			t.Error("the same stream gave another episode in another instance")
		}
		if slices.Equal(first[:len(other)], other) {
			t.Error("another stream gave the same episode")
		}
	})
}

func TestGoroutines(t *testing.T) {
	for _, name := range []string{"Swimmer-v2", "Ant-v2"} {
		alone := [2][]float64{play(t, open(t, name), 0, 100), play(t, open(t, name), 1, 100)}
		var group sync.WaitGroup
		for seed := range alone {
			e := open(t, name)
			group.Go(func() {
				if !slices.Equal(play(t, e, uint64(seed), 100), alone[seed]) {
					t.Errorf("%s: episode %d differs when another is played at the same time", name, seed)
				}
			})
		}
		group.Wait()
	}
}

// recorded reads an array of the trace that scripts/record_trace.py recorded of a task.
func recorded(t *testing.T, e *env, name string, shape ...int) []float64 {
	t.Helper()
	trace, err := npz.ReadFile("testdata/" + e.spec.Name + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	values, err := trace.Float64s(name, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// A state after a reset is distributed as Gymnasium's: of 1,000, as many are at or below each of its quantiles as there
// should be, give or take 5 standard deviations. What is the same after each reset is the same here.
func TestResetNoise(t *testing.T) {
	const resets, quantiles = 1000, 21
	forEach(t, func(t *testing.T, e *env) {
		n := len(e.qpos) + len(e.qvel)
		want := recorded(t, e, "reset_quantiles", quantiles, n)
		below, observation := make([]int, len(want)), make([]float64, e.spec.ObservationDim)
		rng := streams.New(3)
		for range resets {
			if err := e.Reset(rng, observation); err != nil {
				t.Fatal(err)
			}
			for i, x := range slices.Concat(e.data.Positions(), e.data.Velocities()) {
				for q := range quantiles {
					if x <= want[q*n+i] {
						below[q*n+i]++
					}
				}
			}
		}
		for i := range n {
			for q := range quantiles {
				p := float64(q) / (quantiles - 1)
				if want[i] == want[(quantiles-1)*n+i] {
					p = 1
				}
				// Of Gymnasium's 20,000, none is below the least and none above the largest: here few may be.
				tolerance := 5*math.Sqrt(p*(1-p)/resets) + 2e-3
				if got := float64(below[q*n+i]) / resets; math.Abs(got-p) > tolerance {
					t.Errorf("element %d of the state: %.3f are at most %v, want %.3f", i, got, want[q*n+i], p)
				}
			}
		}
	})
}

func TestStepDoesNotAllocate(t *testing.T) {
	forEach(t, func(t *testing.T, e *env) {
		observation, action := make([]float64, e.spec.ObservationDim), make([]float64, e.spec.ActionDim)
		rng := rand.New(rand.NewPCG(1, 1))
		if err := e.Reset(rng, observation); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(50, func() {
			if _, _, err := e.Step(action, observation); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("a step allocates %v times", n)
		}
	})
}

// A control that is not a number is an error, never a number in the batch; after it only a reset helps.
func TestBadActions(t *testing.T) {
	forEach(t, func(t *testing.T, e *env) {
		observation, action := make([]float64, e.spec.ObservationDim), make([]float64, e.spec.ActionDim)
		rng := rand.New(rand.NewPCG(1, 1))
		if _, _, err := e.Step(action, observation); err == nil {
			t.Error("step before the first reset: no error")
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			if err := e.Reset(rng, observation); err != nil {
				t.Fatal(err)
			}
			action[len(action)-1] = bad
			_, _, err := e.Step(action, observation)
			if want := fmt.Sprintf("action[%d] is %v", len(action)-1, bad); err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
			action[len(action)-1] = 0
			if _, _, err := e.Step(action, observation); err == nil {
				t.Error("step after an error: no error")
			}
		}
		if err := e.Reset(rng, observation); err != nil {
			t.Error(err)
		}
		if _, _, err := e.Step(action, observation); err != nil {
			t.Errorf("step after a reset: %v", err)
		}
	})
}

// An action may be too large for the reward.
func TestInfiniteReward(t *testing.T) {
	e, observation := open(t, "Swimmer-v2"), make([]float64, 8)
	if err := e.Reset(streams.New(1), observation); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Step([]float64{0, 1e200}, observation); !errors.Is(err, ErrReward) {
		t.Errorf("error %v", err)
	}
}

func TestBadStates(t *testing.T) {
	forEach(t, func(t *testing.T, e *env) {
		observation := make([]float64, e.spec.ObservationDim)
		qpos, qvel := slices.Clone(e.model.InitialPositions()), make([]float64, e.model.NumVelocities())
		if err := e.SetState(qpos, qvel, observation); err != nil {
			t.Error(err)
		}
		if err := e.SetState(qpos[1:], qvel, observation); err == nil {
			t.Error("short qpos: no error")
		}
		qvel[1] = math.Inf(1)
		if err := e.SetState(qpos, qvel, observation); err == nil || !strings.Contains(err.Error(), "qvel[1] is +Inf") {
			t.Errorf("infinite qvel: error %v", err)
		}
	})
}

// Gymnasium's limits of what ends an episode are those of the task: it ends just outside of each and not just inside.
func TestTermination(t *testing.T) {
	forEach(t, func(t *testing.T, e *env) {
		n := len(e.qpos) + len(e.qvel)
		states := recorded(t, e, "limit_states", -1, n)
		if e.task.healthy != nil && len(states) == 0 {
			t.Error("no limits are recorded of a task that can end")
		}
		observation, action := make([]float64, e.spec.ObservationDim), make([]float64, e.spec.ActionDim)
		for i := range len(states) / n {
			state := states[i*n : (i+1)*n]
			if err := e.SetState(state[:len(e.qpos)], state[len(e.qpos):], observation); err != nil {
				t.Fatal(err)
			}
			_, terminated, err := e.Step(action, observation)
			if err != nil {
				t.Fatal(err)
			}
			if outside := i%2 == 1; terminated != outside { // pairs: just inside, just outside
				t.Errorf("terminated is %v after %v", terminated, state)
			}
		}
	})
}

func TestUnknownTask(t *testing.T) {
	if _, err := New("Swimer-v2"); !errors.Is(err, sim.ErrUnknownTask) {
		t.Errorf("error %v", err)
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	e := open(t, "Swimmer-v2")
	rng := rand.New(rand.NewPCG(1, 1))
	for want, call := range map[string]func(){
		"tasks: observation has length 7, want 8": func() { _ = e.Reset(rng, make([]float64, 7)) },
		"tasks: action has length 3, want 2":      func() { _, _, _ = e.Step(make([]float64, 3), make([]float64, 8)) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %v", got, want)
				}
			}()
			call()
		}()
	}
}

func TestCloseTwice(t *testing.T) {
	e := open(t, "Swimmer-v2")
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}
