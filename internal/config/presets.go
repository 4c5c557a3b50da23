package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/sim"
)

// common holds the hyperparameters of all tasks under the preset paper: the paper's table and text, and for a task without
// a row in tasks, the authors' most frequent choices.
var common = Hyperparameters{
	Seed:           1,
	Batch:          15000,
	Hidden:         []int{64, 64},
	InitialStd:     InitialStd{1, ActionsUnit},
	Clip:           5,
	Targets:        GAE,
	Gamma:          0.995,
	GAELambda:      0.97,
	ValueLearning:  Step,
	ValueEpochs:    5,
	LearningRate:   2.1e-3,
	MaxKL:          0.01,
	StdRate:        1,
	Damping:        0.1,
	CGIterations:   50,
	CGTolerance:    1e-5,
	KernelLearning: Step,
	C1:             1,
	C2:             5e-5,
	Noise:          1e-4,
	FisherVariance: 1,
	Completion:     true,
	Fisher:         Empirical,
	Rank:           50,
	BaseKernel:     baseKernels[0].name,
	Features:       Deep,
	Solver:         Direct,
	FisherKernel:   TruncatedSVD,
	Covariance:     Projected,
	FisherSamples:  1,
	Epsilon:        3,
}

// thisMachine holds the defaults of a machine.
var thisMachine = Machine{
	Actors:    AutoActors,
	Listen:    AutoListen,
	HTTP:      observe.AutoListen,
	LogLevel:  "info",
	LogFormat: observe.Text,
}

// newWorker returns the defaults of a worker.
func newWorker() Worker {
	w := Worker{Machine: thisMachine, LeaseTerm: 3 * time.Second, MaxToKeep: 3}
	w.HTTP = NoHTTP
	return w
}

// DefaultPreset returns the preset that a task has if none is named: Paper for the built-in -v2 tasks, which are the
// paper's, and Best for all others.
func DefaultPreset(task string) Preset {
	builtIn := slices.ContainsFunc(sim.Tasks(), func(t sim.Spec) bool { return t.Name == task })
	if builtIn && strings.HasSuffix(task, "-v2") {
		return Paper
	}
	return Best
}

// Algorithm returns the algorithm that the preset is made for, which a run has if none is named.
func (p Preset) Algorithm() Algorithm {
	if p == Best {
		return TRPO
	}
	return NPG
}

// Estimator returns the estimator that a run has if none is named. With Best it is the one that ten seeds favour
// (docs/results/best).
func (p Preset) Estimator() Estimator {
	if p == Best {
		return MonteCarlo
	}
	return UAPG
}

// setBest changes the settings in which the preset best differs from paper: the same for all tasks, apart from Swimmer's
// discount.
func (s *Settings) setBest() {
	s.Noise, s.FisherVariance = Learned, Learned
	s.Length = Length{Steps: 1_000_000}
	s.Batch, s.Rank = 2000, 90
	s.InitialStd = InitialStd{1.2, HalfOfNorm}
	s.Targets, s.Gamma, s.GAELambda, s.Bootstrap = GAE, 0.995, 0.95, true
	s.ValueLearning, s.KernelLearning = Converge, Converge
	s.MaxKL, s.AdaptiveKL, s.StdRate, s.Damping = 0.02, true, 0.3, 0.25
	s.CGIterations, s.CGTolerance = 20, 0.03
	if _, err := sim.Lookup(s.Env); err == nil { // the state of another program's environment cannot be saved
		s.Segment = 250 // 8 streams
	}
	if family, _ := sim.SplitName(s.Env); family == "Swimmer" {
		// A stroke earns late. gamma is rl-baselines3-zoo's; lambda decides whether a seed swims
		// (docs/results/default).
		s.Gamma, s.GAELambda = 0.9999, 0.98
	}
}

// task holds the settings that differ between tasks, the same for all versions of one, from the authors'
// helper_config.json.
type task struct {
	targets            Targets
	vanilla, npg, trpo step
}

// step holds the settings that also differ between algorithms.
type step struct {
	rank           int
	rate           float64 // learning rate; not used by TRPO
	monteCarloRate float64 // learning rate with Monte Carlo gradients; 0: rate
}

var tasks = map[string]task{
	"Ant":             {GAE, step{50, 7e-3, 0}, step{90, 7e-3, 0}, step{rank: 90}},
	"HalfCheetah":     {GAE, step{60, 2.31e-3, 0}, step{90, 7e-3, 0}, step{rank: 90}},
	"Hopper":          {Returns, step{40, 7e-4, 0}, step{45, 2.1e-3, 0}, step{rank: 45}},
	"Walker2d":        {Returns, step{50, 2.1e-3, 0}, step{75, 2.1e-3, 0}, step{rank: 75}},
	"Swimmer":         {Returns, step{25, 7e-4, 0}, step{30, 2.1e-3, 0}, step{rank: 30}},
	"Humanoid":        {GAE, step{100, 2.31e-3, 0}, step{100, 2.31e-3, 0}, step{rank: 100}},
	"HumanoidStandup": {GAE, step{50, 7e-4, 0}, step{140, 2.1e-3, 2.31e-4}, step{rank: 140}},
}

func (t task) step(algorithm Algorithm) step {
	switch algorithm {
	case Vanilla:
		return t.vanilla
	case NPG:
		return t.npg
	}
	return t.trpo
}

// LookupTask is sim.Lookup with a suggestion in the error: among equally near names, the newest version.
func LookupTask(name string) (sim.Spec, error) {
	task, err := sim.Lookup(name)
	if err == nil {
		return task, nil
	}
	var names []string
	for _, task := range slices.Backward(sim.Tasks()) {
		names = append(names, task.Name)
	}
	meant, _ := nearest.Name(name, names)
	return sim.Spec{}, fmt.Errorf("%w: did you mean %s?", err, meant)
}

// ForTask returns the settings of a task, complete except for RunDir. preset "" is the task's default. The error wraps
// sim.ErrUnknownTask.
func ForTask(name string, algorithm Algorithm, estimator Estimator, preset Preset) (Settings, error) {
	if _, err := LookupTask(name); err != nil {
		return Settings{}, err
	}
	return forTask(name, algorithm, estimator, preset), nil
}

// forTask is ForTask for a task that may be that of a task file.
func forTask(name string, algorithm Algorithm, estimator Estimator, preset Preset) Settings {
	s := Settings{Hyperparameters: common, Length: Length{Iterations: 1000}, EvaluateEvery: AutoEvaluate,
		Machine: thisMachine, Resume: ResumeNo}
	preset = cmp.Or(preset, DefaultPreset(name))
	s.Env, s.Algorithm, s.Estimator, s.Preset = name, algorithm, estimator, preset
	s.Hidden = slices.Clone(common.Hidden)
	family, _ := sim.SplitName(name)
	if own, ok := tasks[family]; ok {
		s.Targets = own.targets
		step := own.step(algorithm)
		s.Rank, s.LearningRate = step.rank, step.rate
		if estimator == MonteCarlo && step.monteCarloRate != 0 {
			s.LearningRate = step.monteCarloRate
		}
	}
	if preset == Best {
		s.setBest()
	}
	return s
}
