package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/internal/observe"
)

// scope says how a setting relates to the results of a run.
type scope int

const (
	result  scope = iota // determines the results: in config.yaml and in every checkpoint
	length               // determines when the run ends, or which policies are evaluated: in config.yaml
	machine              // does not affect the results: in config.yaml
	command              // concerns one invocation of the program: not stored
)

// setting is a row of the table: one field of Settings under the name that files, flags and the environment share.
type setting struct {
	name  string // as in a file: lower case, words joined by "_"
	scope scope
	value pflag.Value
	help  string
}

// flag returns the setting's name on the command line.
func (s setting) flag() string { return strings.ReplaceAll(s.name, "_", "-") }

// variable returns the setting's name in the environment.
func (s setting) variable() string { return variablePrefix + strings.ToUpper(s.name) }

const variablePrefix = "DBQPG_"

// section is a group of rows under a heading.
type section struct {
	title    string
	settings []setting
}

// table returns all settings, bound to the fields of s, in the order of config.yaml.
func (s *Settings) table() []section {
	return []section{
		{"What is learned", []setting{
			{"env", result, text(&s.Env), "task, such as Swimmer-v5 (docs/tasks.md)"},
			{"task", result, taskFile(&s.TaskFile), "file that describes a task of your own, in place of --env (docs/environments.md)"},
			{"algorithm", result, choice(&s.Algorithm, Vanilla, NPG, TRPO), "method of stepping along the gradient"},
			{"estimator", result, choice(&s.Estimator, MonteCarlo, DBQPG, UAPG, UBAC), "gradient estimator; ubac requires vanilla"},
			{"preset", result, presetName(&s.Preset), "set of defaults: best (small batches, learning to convergence, trpo), paper (its text; chosen for -v2 tasks) or authors (their code) (docs/settings.md)"},
			{"seed", result, count(&s.Seed), "seed of all randomness; the same seed gives the same run"},
			{"from", result, text(&s.From), "run or checkpoint whose policy to start from; it must have the same shape (docs/warm-start.md)"},
			{"iterations", length, count(&s.Iterations), "total number of iterations, including those before a resumption"},
			{"steps", length, count(&s.Steps), "total number of environment steps, in place of --iterations: the run ends with the first batch that reaches it, with --segment exactly there"},
			{"evaluate_every", length, autoWhole(&s.EvaluateEvery), "iterations between evaluations, which select the best policy; auto keeps them below 5 % of the run's steps, 0 disables them (docs/evaluate.md)"},
		}},
		{"The batch", []setting{
			{"batch", result, whole(&s.Batch), "minimum number of environment steps in a batch"},
			{"segment", result, whole(&s.Segment), "steps of a segment: a batch is the next segment of each of --streams streams of episodes; 0 plays whole episodes (docs/segments.md)"},
			{"streams", result, whole(&s.Streams), "number of streams; with --segment, --batch is their product unless it is given"},
			{"hidden", result, sizes(&s.Hidden), "widths of the policy's hidden layers"},
			{"initial_std", result, &s.InitialStd, "the policy's initial standard deviation: a multiple of half of each action's range, of that over the root of their number (1.2norm), or in the action's own units (1abs; docs/settings.md)"},
			{"clip", result, number(&s.Clip), "bound on normalised observations"},
		}},
		{"The targets", []setting{
			{"targets", result, choice(&s.Targets, Returns, GAE), "discounted returns, or generalised advantage estimates"},
			{"gamma", result, number(&s.Gamma), "discount factor"},
			{"gae_lambda", result, number(&s.GAELambda), "decay λ of generalised advantage estimates"},
			{"bootstrap", result, truth(&s.Bootstrap), "at the time limit, bootstrap from the value of the last state"},
			{"value_learning", result, choice(&s.ValueLearning, Step, Converge), "learning of the value function: the authors' single step, or as many passes over a batch as pay (docs/critic.md)"},
			{"value_epochs", result, whole(&s.ValueEpochs), "passes over each batch that --value-learning converge makes at most"},
		}},
		{"The policy's step", []setting{
			{"learning_rate", result, number(&s.LearningRate), "learning rate of the policy's Adam optimiser; not used by trpo"},
			{"max_kl", result, number(&s.MaxKL), "trpo's bound on the mean KL divergence of a step, in nats"},
			{"adaptive_kl", result, truth(&s.AdaptiveKL), "multiply --max-kl by 4 s²/S, if that is less than 1, with the variance s² of the batch's targets and its running mean S"},
			{"std_rate", result, number(&s.StdRate), "step of trpo's log standard deviations, relative to the mean's; below 1 the policy explores for longer"},
			{"damping", result, number(&s.Damping), "multiple of the identity added to the Fisher matrix"},
			{"cg_iterations", result, whole(&s.CGIterations), "conjugate gradient iterations for a natural gradient at most; one that has not converged by then is taken as it is"},
			{"cg_tolerance", result, number(&s.CGTolerance), "relative residual of a natural gradient at which conjugate gradients stop"},
		}},
		{"Bayesian quadrature (dbqpg, uapg and ubac)", []setting{
			{"c1", result, number(&s.C1), "weight of the state kernel"},
			{"c2", result, number(&s.C2), "weight of the Fisher kernel"},
			{"noise", result, learnedOr(&s.Noise), "variance sigma² of the observation noise: a number, or learned"},
			{"fisher_variance", result, learnedOr(&s.FisherVariance), "variance v of the Fisher kernel: a number, or learned"},
			{"kernel_learning", result, choice(&s.KernelLearning, Step, Converge), "learning of the process: the authors' single step, or standardised targets and the kernel that predicts held-out episodes best (docs/kernel-learning.md)"},
			{"completion", result, truth(&s.Completion), "correct the gradient for the part of the Fisher kernel that the rank, or the damping, removes"},
			{"rank", result, whole(&s.Rank), "number of singular values of the scores to keep"},
			{"base_kernel", result, baseKernel(&s.BaseKernel), "base kernel of the state kernel: " + nearest.List(kernels.Names())},
			{"features", result, choice(&s.Features, Deep, Raw), "inputs of the state kernel: learned features, or the normalised observation"},
			{"inducing", result, whole(&s.Inducing), "number of inducing points of the state kernel, as in Bayesian actor-critic; 0 interpolates on a grid"},
			{"solver", result, choice(&s.Solver, Direct, ConjugateGradient), "solver for the Gaussian process: closed form, or the paper's conjugate gradients"},
			{"fisher_kernel", result, choice(&s.FisherKernel, TruncatedSVD, Exact), "Fisher kernel from the leading singular vectors of the scores, or by exact products (requires --solver cg)"},
			{"fisher", result, choice(&s.Fisher, Empirical, Analytic), "Fisher matrix in natural gradients, the exact Fisher kernel and the uncertainty"},
			{"covariance", result, choice(&s.Covariance, Projected, Randomized), "eigenpairs of the uncertainty: in closed form, or by the paper's randomised decomposition"},
			{"fisher_samples", result, multiple(&s.FisherSamples), "samples for the Fisher matrix, as a multiple of the gradient's, such as 3x"},
			{"epsilon", result, number(&s.Epsilon), "upper bound on uapg's scaling of a direction"},
		}},
		{"The machine", []setting{
			{"device", machine, &s.Device, DeviceHelp},
			{"actors", machine, autoWhole(&s.Actors), "number of local actors; auto starts one per core, 0 waits for remote ones (actor --nats)"},
			{"nats", machine, text(&s.NATS), "URL of an external NATS server (default: an embedded server)"},
			{"listen", machine, text(&s.Listen), "host:port of the embedded NATS server; auto is 127.0.0.1:4222, or a free port if that one is in use"},
			{"credentials", machine, text(&s.Credentials), "directory of this learner's certificate and key, for TLS and authentication on NATS (docs/security.md)"},
			{"insecure_listen", machine, truth(&s.InsecureListen), "let --listen accept other machines without credentials, and --http"},
			{"keep_checkpoints", machine, counts(&s.KeepCheckpoints), "iterations whose checkpoints to keep besides the newest and the best, such as 0,150,300"},
			{"http", machine, text(&s.HTTP), "host:port of the pages that show the run in a browser, with metrics, health and readiness; auto is 127.0.0.1:8080, or a free port if that one is in use; off; a worker has no pages, its runs are on the coordinator's (docs/dashboard.md)"},
			{"metrics_listen", machine, text(&s.MetricsListen), "the same server's host:port for who reads metrics: on other addresses than this machine's, without the pages, such as 0.0.0.0:9464 (docs/observability.md; default: that of --http)"},
			{"pprof", machine, truth(&s.Pprof), "also serve Go's profiles there"},
			{"log_level", machine, text(&s.LogLevel), "lowest level to log: debug, info, warn or error"},
			{"log_format", machine, choice(&s.LogFormat, observe.Text, observe.JSON), "log format: key=value pairs, or one JSON object per line"},
		}},
		{"A worker, which takes its runs from a coordinator", []setting{
			{"worker", command, truth(&s.Worker), "train the coordinator's runs, one at a time, until stopped (docs/workers.md)"},
			{"coordinator", command, text(&s.Coordinator), "URL of the coordinator, such as http://127.0.0.1:7070; the URLs of several nodes are separated by commas"},
			{"checkpoints", command, text(&s.Checkpoints), "store of all workers' checkpoints: the absolute path of a shared directory, or s3://bucket/prefix"},
			{"worker_name", command, text(&s.WorkerName), "unique name of this worker (default: host name and process ID)"},
			{"lease_term", command, duration(&s.LeaseTerm), "time after which another worker takes over the run of one that has fallen silent"},
			{"max_to_keep", command, whole(&s.MaxToKeep), "number of a run's newest checkpoints that the store keeps, besides the best and --keep-checkpoints: as many iterations as a coordinator may be restored from before the last"},
		}},
		{"This invocation", []setting{
			{"run_dir", command, text(&s.RunDir), "run directory (default runs/TASK/ALGORITHM-ESTIMATOR-sSEED, followed by the settings that differ from the preset)"},
			{"resume", command, choice(&s.Resume, ResumeNo, ResumeYes, ResumeAuto), "resume the run in the run directory; auto starts one if there is none"},
			{"force", command, truth(&s.Force), "start over, moving the existing run aside"},
			{"dry_run", command, truth(&s.DryRun), "print the settings and the planned action, and exit"},
		}},
	}
}

// all returns the table without its headings.
func (s *Settings) all() []setting {
	var all []setting
	for _, section := range s.table() {
		all = append(all, section.settings...)
	}
	return all
}

// Set parses text as the value of the named setting. The name is written as in a file.
func (s *Settings) Set(name, text string) error {
	for _, setting := range s.all() {
		if setting.name == name {
			if err := setting.value.Set(text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no setting %q", name)
}

// introduced holds the settings that runs of earlier versions do not have, with the values that do what these did: so that
// they can be resumed, such a value is not part of a run's identity.
var introduced = map[string]string{
	"adaptive_kl":     "false",
	"std_rate":        "1",
	"segment":         "0",
	"streams":         "0",
	"value_learning":  string(Step),
	"kernel_learning": string(Step),
	"value_epochs":    "5",
	"cg_iterations":   "50",
	"cg_tolerance":    "1.0e-05",
	"initial_std":     "1abs",
}

// Identity returns the settings that determine a run's results, as text by name. Runs with equal identities are the
// same run.
func (s *Settings) Identity() map[string]string {
	identity := map[string]string{}
	for _, setting := range s.all() {
		if setting.scope == result {
			identity[setting.name] = setting.value.String()
		}
	}
	for name, value := range introduced {
		if identity[name] == value {
			delete(identity, name)
		}
	}
	delete(identity, "task") // a built-in task has none
	if s.TaskFile != nil {
		identity["task"] = s.TaskFile.Identity()
	}
	return identity
}

// Recall sets the settings that determine a run's results to the identity that a checkpoint has of them. Those that it lacks did not
// exist then, and get the values that do what was done then. So a run goes on as it began, also when presets have changed.
func (s *Settings) Recall(identity map[string]string) error {
	then := maps.Clone(introduced)
	maps.Copy(then, identity)
	delete(then, "task")
	for name, value := range then {
		if err := s.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// A Hyperparameter is a setting that determines a run's results.
type Hyperparameter struct {
	Name, Description string
	Value             any // float64, bool or string
}

// Listed reports whether a setting's value is a list, such as hidden: 64,64.
func (s *Settings) Listed(name string) bool {
	return slices.ContainsFunc(s.all(), func(row setting) bool { return row.name == name && row.value.Type() == kindList })
}

// Hyperparameters returns the settings that determine a run's results, in the order of config.yaml.
func (s *Settings) Hyperparameters() []Hyperparameter {
	var all []Hyperparameter
	for _, setting := range s.all() {
		if setting.scope != result {
			continue
		}
		h := Hyperparameter{Name: setting.name, Description: setting.help, Value: setting.value.String()}
		switch field := setting.value.(type) {
		case value[uint64]:
			h.Value = float64(*field.field)
		case value[int]:
			h.Value = float64(*field.field)
		case value[bool]:
			h.Value = *field.field
		case value[float64]:
			if field.kind != kindLearned {
				h.Value = *field.field
			}
		}
		all = append(all, h)
	}
	return all
}
