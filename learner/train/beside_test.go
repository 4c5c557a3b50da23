package train

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/state"
	"github.com/dbqpg/dbqpg/sim"
)

// faraway is a backend whose operations must not overlap.
type faraway struct{ compute.Backend }

func (faraway) Distant() bool { return true }

// The value function and the features learn the same beside the policy step as after it, and so does the policy.
func TestDeferredPartsBesideTheStep(t *testing.T) {
	task, err := sim.Lookup("Hopper-v2")
	if err != nil {
		t.Fatal(err)
	}
	for _, estimator := range []config.Estimator{config.MonteCarlo, config.UAPG} {
		settings, err := config.ForTask(task.Name, config.TRPO, estimator, config.Best)
		if err != nil {
			t.Fatal(err)
		}
		type learned struct {
			Params        []float64
			Value, Critic state.Arrays
			Rows          []runs.Row
		}
		learn := func(last bool) (all learned) {
			b := compute.Backend(cpu.New(2))
			if last {
				b = faraway{b}
			}
			l, rng := New(b, &settings, task), rand.New(rand.NewPCG(17, 0))
			for iteration := range uint64(4) {
				s, row := compute.NewScope(b), runs.NewRow()
				row.Iteration = iteration
				x := NewSamples(s, randomEpisodes(rng, task, 1200), nil, policy.Identity(task.ObservationDim, 5))
				if err := l.Update(x, s, NewRandom(17, iteration), &row, nil); err != nil {
					t.Fatal(err)
				}
				s.Release()
				all.Rows = append(all.Rows, row)
			}
			all.Params, all.Value = l.Params, state.Save(l.Values.(Network).Visit)
			if l.Critic != nil {
				all.Critic = state.Save(l.Critic.Visit)
			}
			return all
		}
		beside, after := learn(false), learn(true)
		if !reflect.DeepEqual(beside.Params, after.Params) || !reflect.DeepEqual(beside.Value, after.Value) ||
			!reflect.DeepEqual(beside.Critic, after.Critic) {
			t.Errorf("%s: what is learned depends on when", estimator)
		}
		for i, row := range beside.Rows {
			if row.ValuePasses == 0 || row.ValuePasses != after.Rows[i].ValuePasses || row.KL != after.Rows[i].KL {
				t.Errorf("%s, iteration %d: %v passes and KL %v, or %v and %v", estimator, i, row.ValuePasses, row.KL,
					after.Rows[i].ValuePasses, after.Rows[i].KL)
			}
		}
	}
}

// A deferred part's error is the update's, and an update that fails leaves no part running.
func TestDeferredPartsFail(t *testing.T) {
	bad := errors.New("nothing learned")
	for _, last := range []bool{false, true} {
		d := &deferral{last: last}
		d.add(nil)
		d.add(func() (func(*runs.Row), error) { return nil, nil })
		d.add(func() (func(*runs.Row), error) { return nil, bad })
		if err := d.wait(nil); !errors.Is(err, bad) {
			t.Errorf("last %v: the error is %v", last, err)
		}
	}
	d, begun, goOn := &deferral{}, make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	d.add(func() (func(*runs.Row), error) {
		close(begun)
		<-goOn
		done.Store(true)
		return nil, nil
	})
	<-begun
	close(goOn)
	if d.abandon(); !done.Load() {
		t.Error("a deferred part outlives the update")
	}
}

// Rewards that are not finite are an error of the update, whichever stage meets them first, and the value function is
// as before.
func TestUpdateOfRewardsThatAreNotFinite(t *testing.T) {
	task, err := sim.Lookup("Hopper-v2")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config.ForTask(task.Name, config.TRPO, config.UAPG, config.Best)
	if err != nil {
		t.Fatal(err)
	}
	b := cpu.New(2)
	s := compute.NewScope(b)
	defer s.Release()
	l, row := New(b, &settings, task), runs.NewRow()
	episodes, before := randomEpisodes(rand.New(rand.NewPCG(18, 0)), task, 600), state.Save(l.Values.(Network).Visit)
	episodes[0].Rewards[0] = math.Inf(1)
	x := NewSamples(s, episodes, nil, policy.Identity(task.ObservationDim, 5))
	if err := l.Update(x, s, NewRandom(18, 0), &row, nil); err == nil {
		t.Error("an infinite reward is taken")
	} else {
		t.Log(err)
	}
	if !reflect.DeepEqual(state.Save(l.Values.(Network).Visit), before) {
		t.Error("the value function has learned from an infinite reward")
	}
}
