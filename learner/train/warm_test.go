package train_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// source is a checkpoint of a short run with these settings.
func source(t *testing.T, s *config.Settings) *runs.Checkpoint {
	t.Helper()
	states := trainSerially(t, s).states
	return &runs.Checkpoint{Location: "runs/source", SHA256: "5ca1e", State: states[len(states)-1],
		Settings: s.Identity()}
}

// small are settings of runs that take no time.
func small(t *testing.T, estimator config.Estimator) *config.Settings {
	t.Helper()
	s := settings(t, "Hopper-v2", config.NPG, estimator)
	s.Batch, s.Iterations = 200, 2
	return s
}

// startFrom trains from a checkpoint and returns the journal.
func startFrom(t *testing.T, s *config.Settings, c *runs.Checkpoint) *journal {
	t.Helper()
	j := new(journal)
	r := newRun(t, s, newSerial(t, s), j)
	if err := r.StartFrom(c, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j
}

// A run that starts from another's checkpoint has its policy, normaliser and critic, and is new in everything else.
func TestStartFrom(t *testing.T) {
	c := source(t, small(t, config.UAPG))
	s := small(t, config.UAPG)
	s.Seed, s.LearningRate, s.C2 = 8, 1e-3, 1e-4
	s.InitialStd = config.InitialStd{Scale: 0.5} // the donor's are kept
	j := startFrom(t, s, c)
	first := j.states[0]
	if want := (runs.Counters{Epoch: 1, From: "5ca1e"}); first.Counters != want || len(j.states) != 3 {
		t.Errorf("%d states, the first %+v, want %+v", len(j.states), first.Counters, want)
	}
	for name, values := range c.State.Arrays {
		switch {
		case strings.HasPrefix(name, "optimizer.") || strings.HasPrefix(name, "critic.value.") ||
			strings.HasPrefix(name, "critic.process."):
			if slices.Max(first.Arrays[name]) != 0 || slices.Min(first.Arrays[name]) != 0 {
				t.Errorf("%s begins with %v", name, first.Arrays[name])
			}
		default:
			requireBits(t, name, first.Arrays[name], values)
		}
	}
	if last := j.states[2]; last.From != "5ca1e" || last.Steps != j.rows[1].Steps ||
		j.rows[0].Steps >= 2*uint64(s.Batch) {
		t.Errorf("the last state is %+v, the first row says %d steps", last.Counters, j.rows[0].Steps)
	}

	// It resumes without the source.
	resumed := &journal{states: slices.Clone(j.states[:1])}
	r := newRun(t, s, newSerial(t, s), resumed)
	if err := r.Resume(first, 2); err != nil {
		t.Fatal(err)
	}
	if err := r.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "resumed", resumed, j)
}

// A critic comes along where both runs have one, with its hyperparameters where the kernel is the same.
func TestStartFromOtherMethods(t *testing.T) {
	deep, plain := source(t, small(t, config.UAPG)), source(t, small(t, config.MonteCarlo))
	fresh := trainSerially(t, small(t, config.DBQPG)).states[0]

	j := startFrom(t, small(t, config.DBQPG), plain)
	requireBits(t, "the policy", j.states[0].Arrays["policy.params"], plain.State.Arrays["policy.params"])
	requireBits(t, "the critic of a run from one without", j.states[0].Arrays["critic.params"],
		fresh.Arrays["critic.params"])

	s := small(t, config.DBQPG)
	s.BaseKernel = "matern52"
	j = startFrom(t, s, deep)
	requireBits(t, "the networks", j.states[0].Arrays["critic.params"], deep.State.Arrays["critic.params"])
	requireBits(t, "hyperparameters of another kernel", j.states[0].Arrays["critic.raw"],
		trainSerially(t, s).states[0].Arrays["critic.raw"])

	converging := small(t, config.MonteCarlo)
	converging.Targets, converging.ValueLearning = config.GAE, config.Converge
	learned := source(t, converging)
	j = startFrom(t, converging, learned)
	for _, name := range []string{"value_function.params", "value_function.moments"} {
		requireBits(t, name, j.states[0].Arrays[name], learned.State.Arrays[name])
	}
	if steps := j.states[0].Arrays["value_function.optimizer.steps"][0]; steps != 0 {
		t.Errorf("the value function's optimiser begins with %v steps", steps)
	}
	j = startFrom(t, converging, deep)
	requireBits(t, "the value function of a run from one without", j.states[0].Arrays["value_function.params"],
		trainSerially(t, converging).states[0].Arrays["value_function.params"])
	learned.State.Arrays["value_function.moments"] = nil
	if err := newRun(t, converging, nil, nil).StartFrom(learned, 1); err == nil ||
		!strings.Contains(err.Error(), `runs/source: the state's array "value_function.moments"`) {
		t.Errorf("error %v", err)
	}

	j = startFrom(t, small(t, config.MonteCarlo), deep)
	if _, there := j.states[0].Arrays["critic.params"]; there {
		t.Error("a run without a critic has one")
	}
}

func TestStartFromAnotherShape(t *testing.T) {
	c := source(t, small(t, config.UAPG))
	s := small(t, config.UAPG)
	s.Hidden = []int{32}
	err := newRun(t, s, nil, nil).StartFrom(c, 1)
	want := "runs/source: its policy has 11 observations, hidden layers [64 64] and 3 actions, but this run's has 11 " +
		"observations, hidden layers [32] and 3 actions"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	c.State.Arrays["critic.params"] = c.State.Arrays["critic.params"][1:]
	if err := newRun(t, small(t, config.UAPG), nil, nil).StartFrom(c, 1); err == nil ||
		!strings.Contains(err.Error(), `runs/source: the state's array "critic.params"`) {
		t.Errorf("error %v", err)
	}
}
