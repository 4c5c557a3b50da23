// Package config defines the settings of a run and of a worker, and resolves them from their sources.
//
// A setting is taken from the first of these sources that gives it: a flag (--gae-lambda 0.9), the environment
// (DBQPG_GAE_LAMBDA), a YAML file (gae_lambda: 0.9; the file of --config, then the config.yaml of a resumed run), and
// the preset of its task (presets.yaml).
//
// [Hyperparameters] determine a run's results, and are stored with it; [Machine] says where it is executed.
// settings.yaml describes each field, and presets.yaml has the defaults: a new setting is a field, a row and a default.
package config

import (
	"time"

	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/external"
)

// The names that settings take.

type (
	Algorithm    string // method of turning a gradient into a policy step
	Estimator    string // method of estimating the gradient from a batch
	Preset       string // set of defaults (presets.yaml)
	Targets      string // weights of a Monte Carlo gradient, to which Bayesian quadrature fits the process
	Learning     string // method of fitting the value function or the process's kernel to a batch
	Features     string // inputs of the state kernel
	Solver       string // method of solving the Gaussian process's equations
	FisherKernel string // method of computing products with the Fisher kernel U'G^-1 U (sec:appendix_Fisher_mvm)
	Fisher       string // the Fisher matrix in natural gradients, the exact Fisher kernel and the uncertainty
	Covariance   string // method of computing the leading eigenpairs of the uncertainty
	Resume       string // whether to resume the run in the run directory
)

// The names.
const (
	Vanilla Algorithm = "vanilla" // Adam on the gradient
	NPG     Algorithm = "npg"     // Adam on the natural gradient
	TRPO    Algorithm = "trpo"    // line search along the natural gradient, within a trust region

	MonteCarlo Estimator = "mc"
	DBQPG      Estimator = "dbqpg" // Bayesian quadrature (eq:GP_grad)
	UAPG       Estimator = "uapg"  // DBQPG, corrected by its uncertainty (eqn:UAPG_practical_vanilla, eqn:UAPG_npg)
	UBAC       Estimator = "ubac"  // DBQPG, corrected as in Bayesian actor-critic (sec:appendix_BACvsDBQPG)

	Paper Preset = "paper" // the values in the paper's text, with the truncated kernel completed
	Best  Preset = "best"  // small batches, a critic and a kernel that learn to convergence; made for TRPO

	Returns Targets = "returns" // discounted returns, not standardised
	GAE     Targets = "gae"     // generalised advantage estimates, standardised over the batch

	Step Learning = "step" // one step of Adam on the returns, or on the marginal likelihood
	// Converge trains until held-out episodes are no longer predicted better: a value network on standardised
	// lambda-returns (docs/advanced.md), or the kernel on standardised targets (docs/kernels.md).
	Converge Learning = "converge"

	Deep Features = "deep" // the outputs of the feature network
	Raw  Features = "raw"  // the normalised observation: no deep kernel learning

	Direct            Solver = "direct" // in closed form, using the kernel's low rank
	ConjugateGradient Solver = "cg"     // iteratively, by products with structured kernels, as in the paper

	TruncatedSVD FisherKernel = "svd"   // by the scores' leading singular vectors: n v V V' (approach 2)
	Exact        FisherKernel = "exact" // by products with U, with G^-1 and with U' (approach 1)

	Empirical Fisher = "empirical" // UU'/n (eqn:kernel_equations)
	Analytic  Fisher = "analytic"  // the expectation of Empirical over the actions

	Projected  Covariance = "projected"  // in closed form, within the span of the scores' singular vectors
	Randomized Covariance = "randomized" // by a randomised decomposition, as in the paper

	ResumeNo   Resume = "no"
	ResumeYes  Resume = "yes"  // resume it; it must exist
	ResumeAuto Resume = "auto" // resume it if it exists; otherwise start it
)

// Learned is the value of a Noise or FisherVariance that is learned with the kernel's hyperparameters.
const Learned = 0.0

// Values of settings that are resolved when the run starts.
const (
	AutoActors   = auto   // one local actor per core
	AutoEvaluate = auto   // evaluations that play few steps, compared with training
	AutoListen   = "auto" // address of the embedded server: 127.0.0.1:4222, or a free port if that one is in use
)

// Settings holds the settings of a run; the tables describe each field. They are complete: apart from AutoActors,
// AutoEvaluate and AutoListen no value stands for a default (a zero is a zero: --actors 0 is a choice). Start from the
// result of ForTask and change individual fields; Validate reports what is wrong with the result.
type Settings struct {
	Hyperparameters

	Length
	EvaluateEvery   int // 0: no evaluations; AutoEvaluate
	KeepCheckpoints []uint64

	Machine

	RunDir        string
	Resume        Resume
	Force, DryRun bool
}

// Hyperparameters determine a run's results.
type Hyperparameters struct {
	Env       string
	TaskFile  *external.File // the task named Env, if it is not a built-in one; else nil
	Algorithm Algorithm
	Estimator Estimator
	Preset    Preset
	Seed      uint64
	From      string // "": a random policy (package runs)

	Batch      int // the last episode is played to its end
	Segment    int // 0: tickets are for whole episodes
	Hidden     []int
	InitialStd InitialStd
	Clip       float64

	Targets          Targets
	Gamma, GAELambda float64
	Bootstrap        bool // else the value is 0 there
	ValueLearning    Learning
	ValueEpochs      int

	LearningRate     float64
	MaxKL            float64
	AdaptiveKL       bool // see optim.TRPO
	StdRate, Damping float64
	CGIterations     int
	CGTolerance      float64 // of |g - G d| / |g|

	C1, C2                float64
	Noise, FisherVariance float64 // or Learned
	KernelLearning        Learning
	Completion            bool // for the exact kernel: remove the damping from its integral
	Rank                  int  // delta: of the scores, and of the uncertainty
	BaseKernel            string
	Features              Features
	Inducing              int // 0: structured kernel interpolation
	Solver                Solver
	FisherKernel          FisherKernel
	Fisher                Fisher
	Covariance            Covariance
	FisherSamples         float64 // at least 1
	Epsilon               float64
}

// Machine holds the settings of the machine that executes runs; results do not depend on them.
type Machine struct {
	Device         Device
	Actors         int    // 0: remote actors alone; AutoActors
	NATS           string // "": an embedded server
	Listen         string // AutoListen
	Credentials    string // "": none. Only the path is stored with the run.
	InsecureListen bool

	HTTP          string // NoHTTP; observe.AutoListen. A worker has no pages: the coordinator's show its runs.
	MetricsListen string // "": HTTP
	Pprof         bool

	LogLevel  string
	LogFormat string // observe.Text or observe.JSON
}

// Worker holds the settings of a worker, which takes its runs from a coordinator.
type Worker struct {
	Machine
	Coordinator string
	Checkpoints string
	Name        string // "": host name and process ID
	LeaseTerm   time.Duration
	MaxToKeep   int
}

// TaskFiles returns TaskFile, if there is one.
func (h *Hyperparameters) TaskFiles() []*external.File {
	if h.TaskFile == nil {
		return nil
	}
	return []*external.File{h.TaskFile}
}

// Task returns the task's description.
func (h *Hyperparameters) Task() (sim.Spec, error) {
	if h.TaskFile != nil {
		return h.TaskFile.Spec(), nil
	}
	return LookupTask(h.Env)
}
