// Package config holds a run's settings and where they come from.
//
// A setting is given, in order of precedence, by a flag (--gae-lambda 0.9), by the environment (DBQPG_GAE_LAMBDA), by
// a YAML file (gae_lambda: 0.9; that of --config, then the config.yaml of a run that is resumed), or by the preset of
// its task (presets.go). One table, in table.go, gives each its name, its help and its place in [Settings]; a new setting is a new
// field and a new row.
package config

import (
	"fmt"
	"path/filepath"
	"time"
)

// Algorithm is how a gradient becomes a step of the policy.
type Algorithm string

// The algorithms.
const (
	Vanilla Algorithm = "vanilla" // Adam on the gradient
	NPG     Algorithm = "npg"     // Adam on the natural gradient
	TRPO    Algorithm = "trpo"    // line search along the natural gradient, within a trust region
)

// Estimator is how a batch becomes a gradient.
type Estimator string

// The estimators.
const (
	MonteCarlo Estimator = "mc"
	DBQPG      Estimator = "dbqpg" // Bayesian quadrature (eq:GP_grad)
	UAPG       Estimator = "uapg"  // that, corrected by its uncertainty (eqn:UAPG_practical_vanilla, eqn:UAPG_npg)
	UBAC       Estimator = "ubac"  // that, corrected as in Bayesian actor-critic (sec:appendix_BACvsDBQPG)
)

// Preset names values of settings in which the paper and the authors' code differ (presets.go).
type Preset string

// The presets.
const (
	Authors Preset = "authors" // as the authors' code has them
	Paper   Preset = "paper"   // as the paper's text has them, with the truncated kernel completed
)

// Learned as Noise or FisherVariance says that the process learns it.
const Learned = 0.0

// Targets are what the gradient's samples are weighted with, or the process fitted to.
type Targets string

// The targets.
const (
	Returns Targets = "returns" // discounted, as they are
	GAE     Targets = "gae"     // generalised advantage estimates, standardised over the batch
)

// Features are what the state kernel sees of a state.
type Features string

// The features.
const (
	Deep Features = "deep" // a learned network's outputs
	Raw  Features = "raw"  // the normalised observation: no deep kernel learning
)

// Solver is how the Gaussian process's equations are solved.
type Solver string

// The solvers.
const (
	Direct            Solver = "direct" // in closed form, by the kernel's small rank
	ConjugateGradient Solver = "cg"     // by products with structured kernels, as in the paper
)

// FisherKernel is how products with the Fisher kernel U'G^-1 U are computed.
type FisherKernel string

// The ways. The paper has them the other way round, as approaches 2 and 1 (sec:appendix_Fisher_mvm).
const (
	TruncatedSVD FisherKernel = "svd"   // by the scores' leading singular vectors: n v V V'
	Exact        FisherKernel = "exact" // by products with U, with G^-1 and with U'
)

// Fisher is the Fisher information matrix of natural gradients, of the exact Fisher kernel, and of the gradient's
// uncertainty.
type Fisher string

// The matrices.
const (
	Empirical Fisher = "empirical" // UU'/n (eqn:kernel_equations)
	Analytic  Fisher = "analytic"  // its expectation over the actions
)

// Covariance is how the leading eigenpairs of the uncertainty are found.
type Covariance string

// The ways.
const (
	Projected  Covariance = "projected"  // in closed form, in the span of the scores' singular vectors
	Randomized Covariance = "randomized" // by a randomised decomposition, as in the paper
)

// Resume says what to do about a run that is already there.
type Resume string

// The choices.
const (
	ResumeNo   Resume = "no"
	ResumeYes  Resume = "yes"  // go on with it, which must be there
	ResumeAuto Resume = "auto" // go on with it if it is there, else start it
)

// Values of settings that are to be chosen when the run starts.
const (
	AutoActors = -1     // local actors: one a core
	AutoListen = "auto" // the embedded server's address: 127.0.0.1:4222, or a free port if that is taken
)

// Settings are those of a run. They are complete: no value stands for another, save the two named Auto (a zero is a
// zero: --actors 0 is a choice). Begin with what ForTask returns and change it field by field; Validate tells
// what is wrong with the result.
type Settings struct {
	// What is learned. These and all up to Epsilon decide what a run's results are.
	Env       string // task, such as "Swimmer-v2"
	Algorithm Algorithm
	Estimator Estimator
	Preset    Preset
	Seed      uint64 // of every random stream

	// The batch.
	Batch  int     // the least number of environment steps in it; the last episode is played to its end
	Hidden []int   // widths of the policy's hidden layers
	Clip   float64 // bound on a normalised observation's absolute value

	// The targets.
	Targets   Targets
	Gamma     float64 // discount factor, in (0, 1]
	GAELambda float64 // weight of longer estimates, in [0, 1]
	Bootstrap bool    // an episode that the time limit ends goes on with its last state's value, not with 0

	// The policy's step.
	LearningRate float64 // of the policy's Adam; TRPO does without
	MaxKL        float64 // TRPO's bound on the mean divergence of a step, in nats
	Damping      float64 // multiple of the identity added to the Fisher matrix

	// Bayesian quadrature.
	C1            float64 // weight of the state kernel
	C2            float64 // weight of the Fisher kernel
	Rank          int     // delta: singular values kept of the scores, and eigenpairs of the uncertainty
	BaseKernel    string  // of each feature of a state, by its name in package kernels
	Features      Features
	Inducing      int // samples that stand for all in the state kernel; 0: structured kernel interpolation
	Solver        Solver
	FisherKernel  FisherKernel
	Fisher        Fisher
	Covariance    Covariance
	FisherSamples float64 // that the Fisher matrix is taken over, as a multiple of Batch: the gradient's, and more
	Epsilon       float64 // the most that UAPG lengthens a direction of the natural gradient
	// Noise and FisherVariance are the process's observation variance sigma² and the variance v of the Fisher
	// kernel: fixed, or Learned.
	Noise, FisherVariance float64
	// Completion completes the truncated Fisher kernel, and takes the damping out of the exact one's integral.
	Completion bool

	// How long to go on; a run can be resumed with more.
	Iterations uint64

	// Where and how it runs, which its results do not depend on.
	Device Device
	Actors int    // local ones; 0: only such as join over NATS; AutoActors
	NATS   string // URL of an external NATS server; "": one in this process
	Listen string // host:port of the server in this process; AutoListen
	// InsecureListen lets that server listen for other machines without credentials.
	InsecureListen bool
	// Credentials is the directory of the learner's certificate and keys, of which nothing else is kept; "": none.
	Credentials string
	RunDir      string // directory of the run
	// KeepCheckpoints are iterations whose checkpoints are kept besides the newest and the best.
	KeepCheckpoints []uint64

	// What a worker needs, which takes runs from a coordinator and has no task of its own.
	Worker      bool
	Coordinator string        // URLs of one or more of the coordinator's nodes, separated by commas
	Checkpoints string        // the store of checkpoints: a directory or s3://bucket/prefix
	WorkerName  string        // "": the host's name and the process's number
	LeaseTerm   time.Duration // how long a run stays the worker's that is not heard of

	MetricsListen string // host:port of the HTTP server of metrics, health and readiness; "": there is none
	Pprof         bool   // Go's profiles are served there too

	LogLevel  string // debug, info, warn or error
	LogFormat string // of the log's lines: observe.Text or observe.JSON
	Resume    Resume
	Force     bool // start over, moving the run that is there aside
	DryRun    bool // say what would be done, and do nothing
}

// Name is the run's name, "task/algorithm-estimator-sSEED".
func (s *Settings) Name() string {
	return fmt.Sprintf("%s/%s-%s-s%d", s.Env, s.Algorithm, s.Estimator, s.Seed)
}

// DefaultRunDir is where a run goes that is not given a place: under runs in the working directory.
func (s *Settings) DefaultRunDir() string { return filepath.Join("runs", filepath.FromSlash(s.Name())) }
