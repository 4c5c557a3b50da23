package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/internal/observe"
)

// scope says how a setting relates to the results of a run.
type scope int

const (
	result  scope = iota // determines the results: in config.yaml and in every checkpoint
	length               // determines when the run ends, or which of its policies are kept: in config.yaml
	machine              // does not affect the results: in config.yaml
	command              // concerns one invocation of the program: not stored
)

// setting is a row of the tables: a field under the name that files, flags and the environment share.
type setting struct {
	name  string // as in a file: lower case, words joined by "_"
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
	scope    scope
	settings []setting
}

// table returns the settings of a run, in the order of config.yaml.
func (s *Settings) table() []section {
	return append(s.Hyperparameters.table(),
		section{"The length", length, []setting{
			{"iterations", count(&s.Iterations), "total number of iterations, including those before a resumption"},
			{"steps", count(&s.Steps), "total number of environment steps, in place of --iterations"},
			{"evaluate_every", autoWhole(&s.EvaluateEvery),
				"iterations between evaluations, which select the best policy; auto keeps them below 5 % of the " +
					"run's steps, 0 disables them (docs/evaluate.md)"},
			{"keep_checkpoints", list(&s.KeepCheckpoints, parseCount, "0,150,300"),
				"iterations whose checkpoints to keep besides the newest and the best, such as 0,150,300"},
		}},
		s.Machine.section(),
		section{"This invocation", command, []setting{
			{"run_dir", text(&s.RunDir),
				"run directory (default runs/TASK/ALGORITHM-ESTIMATOR-sSEED and what differs from the preset)"},
			{"resume", choice(&s.Resume, ResumeNo, ResumeYes, ResumeAuto),
				"resume the run in the run directory; auto starts one if there is none"},
			{"force", truth(&s.Force), "start over, moving the existing run aside"},
			{"dry_run", truth(&s.DryRun), "print the settings and the planned action, and exit"},
		}},
	)
}

// table returns the hyperparameters.
func (h *Hyperparameters) table() []section {
	return []section{
		{"What is learned", result, []setting{
			{"env", text(&h.Env), "task, such as Swimmer-v5 (docs/tasks.md)"},
			{"task", taskFile(&h.TaskFile),
				"file that describes your own task, in place of --env (docs/environments.md)"},
			{"algorithm", choice(&h.Algorithm, Vanilla, NPG, TRPO), "method of stepping along the gradient"},
			{"estimator", choice(&h.Estimator, MonteCarlo, DBQPG, UAPG, UBAC),
				"gradient estimator; ubac requires vanilla"},
			{"preset", choice(&h.Preset, Paper, Best),
				"set of defaults: paper for -v2 tasks, best for all others (docs/settings.md)"},
			{"seed", count(&h.Seed), "seed of all randomness; the same seed gives the same run"},
			{"from", text(&h.From),
				"run or checkpoint whose policy to start from; it must have the same shape (docs/evaluate.md)"},
		}},
		{"The batch", result, []setting{
			{"batch", whole(&h.Batch), "minimum number of environment steps in a batch"},
			{"segment", whole(&h.Segment),
				"steps of a segment: a batch is one segment of each of batch/segment streams of episodes; 0 plays " +
					"whole episodes (docs/advanced.md)"},
			{"hidden", list(&h.Hidden, strconv.Atoi, "64,64"), "widths of the policy's hidden layers"},
			{"initial_std", &h.InitialStd,
				"the policy's initial standard deviation: a multiple of half of each action's range, of that over " +
					"the root of their number (1.2norm), or in the action's own units (1abs; docs/settings.md)"},
			{"clip", number(&h.Clip), "bound on normalised observations"},
		}},
		{"The targets", result, []setting{
			{"targets", choice(&h.Targets, Returns, GAE), "discounted returns, or generalised advantage estimates"},
			{"gamma", number(&h.Gamma), "discount factor"},
			{"gae_lambda", number(&h.GAELambda), "decay λ of generalised advantage estimates"},
			{"bootstrap", truth(&h.Bootstrap), "at the time limit, bootstrap from the value of the last state"},
			{"value_learning", choice(&h.ValueLearning, Step, Converge),
				"training of the value function: one Adam step a batch, or until held-out episodes are predicted no " +
					"better (docs/advanced.md)"},
			{"value_epochs", whole(&h.ValueEpochs),
				"maximum number of passes over each batch of --value-learning converge"},
		}},
		{"The policy's step", result, []setting{
			{"learning_rate", number(&h.LearningRate),
				"learning rate of the policy's Adam optimiser; not used by trpo"},
			{"max_kl", number(&h.MaxKL), "trpo's bound on the mean KL divergence of a step, in nats"},
			{"adaptive_kl", truth(&h.AdaptiveKL),
				"multiply --max-kl by min(1, 4 s²/S), where s² is the variance of the batch's targets and S its " +
					"running mean"},
			{"std_rate", number(&h.StdRate),
				"step of trpo's log standard deviations, relative to the mean's; below 1 the policy explores for " +
					"longer"},
			{"damping", number(&h.Damping), "multiple of the identity added to the Fisher matrix"},
			{"cg_iterations", whole(&h.CGIterations),
				"maximum number of conjugate gradient iterations for a natural gradient"},
			{"cg_tolerance", number(&h.CGTolerance),
				"relative residual of a natural gradient at which conjugate gradients stop"},
		}},
		{"Bayesian quadrature (dbqpg, uapg and ubac)", result, []setting{
			{"c1", number(&h.C1), "weight of the state kernel"},
			{"c2", number(&h.C2), "weight of the Fisher kernel"},
			{"noise", learnedOr(&h.Noise), "variance sigma² of the observation noise: a number, or learned"},
			{"fisher_variance", learnedOr(&h.FisherVariance), "variance v of the Fisher kernel: a number, or learned"},
			{"kernel_learning", choice(&h.KernelLearning, Step, Converge),
				"training of the kernel: one Adam step a batch on the marginal likelihood, or until held-out " +
					"episodes are predicted no better (docs/kernels.md)"},
			{"completion", truth(&h.Completion),
				"correct the gradient for the part of the Fisher kernel that the rank, or the damping, removes"},
			{"rank", whole(&h.Rank), "number of singular values of the scores to keep"},
			{"base_kernel", baseKernel(&h.BaseKernel),
				"base kernel of the state kernel: " + nearest.List(baseKernelNames())},
			{"features", choice(&h.Features, Deep, Raw),
				"inputs of the state kernel: learned features, or the normalised observation"},
			{"inducing", whole(&h.Inducing),
				"number of inducing points of the state kernel, as in Bayesian actor-critic; 0 interpolates on a " +
					"grid"},
			{"solver", choice(&h.Solver, Direct, ConjugateGradient),
				"solver for the Gaussian process: closed form, or the paper's conjugate gradients"},
			{"fisher_kernel", choice(&h.FisherKernel, TruncatedSVD, Exact),
				"Fisher kernel from the leading singular vectors of the scores, or by exact products (requires " +
					"--solver cg)"},
			{"fisher", choice(&h.Fisher, Empirical, Analytic),
				"Fisher matrix in natural gradients, the exact Fisher kernel and the uncertainty"},
			{"covariance", choice(&h.Covariance, Projected, Randomized),
				"eigenpairs of the uncertainty: in closed form, or by the paper's randomised decomposition"},
			{"fisher_samples", multiple(&h.FisherSamples),
				"samples for the Fisher matrix, as a multiple of the gradient's, such as 3x"},
			{"epsilon", number(&h.Epsilon), "upper bound on uapg's scaling of a direction"},
		}},
	}
}

func (m *Machine) section() section {
	return section{"The machine", machine, []setting{
		{"device", &m.Device, DeviceHelp},
		{"actors", autoWhole(&m.Actors),
			"number of local actors; auto starts one per core, 0 waits for remote ones (actor --nats)"},
		{"nats", text(&m.NATS), "URL of an external NATS server (default: an embedded server)"},
		{"listen", text(&m.Listen),
			"host:port of the embedded NATS server; auto is 127.0.0.1:4222, or a free port if that one is in use"},
		{"credentials", text(&m.Credentials),
			"directory of this learner's certificate and key, for TLS and authentication (docs/security.md)"},
		{"insecure_listen", truth(&m.InsecureListen),
			"let --listen and --http accept other machines without credentials"},
		{"http", text(&m.HTTP),
			"host:port of the run's pages, metrics and health; auto is 127.0.0.1:8080, or a free port; off " +
				"(docs/dashboard.md)"},
		{"metrics_listen", text(&m.MetricsListen),
			"address for Prometheus to scrape, such as 0.0.0.0:9464, if it differs from --http; other machines see " +
				"no pages there (docs/observability.md)"},
		{"pprof", truth(&m.Pprof), "also serve Go's profiles there"},
		{"log_level", text(&m.LogLevel), "lowest level to log: debug, info, warn or error"},
		{"log_format", choice(&m.LogFormat, observe.Text, observe.JSON),
			"log format: key=value pairs, or one JSON object per line"},
	}}
}

// table returns the settings of a worker.
func (w *Worker) table() []section {
	return []section{
		{"The worker", command, []setting{
			{"coordinator", text(&w.Coordinator),
				"URLs of the coordinator's nodes, such as http://127.0.0.1:7070, separated by commas"},
			{"checkpoints", text(&w.Checkpoints),
				"store of all workers' checkpoints: the absolute path of a shared directory, or s3://bucket/prefix"},
			{"worker_name", text(&w.Name), "unique name of this worker (default: host name and process ID)"},
			{"lease_term", duration(&w.LeaseTerm),
				"lease duration; a worker that does not renew for this long loses its run"},
			{"max_to_keep", whole(&w.MaxToKeep),
				"newest checkpoints to keep per run, in addition to the best (docs/files.md)"},
		}},
		w.Machine.section(),
	}
}

// rows returns the rows of the sections that have one of the scopes, or of all.
func rows(table []section, scopes ...scope) []setting {
	var all []setting
	for _, section := range table {
		if len(scopes) == 0 || slices.Contains(scopes, section.scope) {
			all = append(all, section.settings...)
		}
	}
	return all
}

// all returns the settings without their headings.
func (s *Settings) all() []setting { return rows(s.table()) }

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

// Identity returns the hyperparameters as text by name. Runs with equal identities are the same run.
func (h *Hyperparameters) Identity() map[string]string {
	identity := map[string]string{}
	for _, setting := range rows(h.table()) {
		identity[setting.name] = setting.value.String()
	}
	delete(identity, "task") // a built-in task has none
	if h.TaskFile != nil {
		identity["task"] = h.TaskFile.Identity()
	}
	return identity
}

// Recall sets the hyperparameters to a checkpoint's identity: a run continues as it began, even when presets have
// changed.
func (s *Settings) Recall(identity map[string]string) error {
	for name, value := range identity {
		if name == "task" {
			continue
		}
		if err := s.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// A Hyperparameter is one of [Hyperparameters].
type Hyperparameter struct {
	Name, Description string
	Value             any // float64, bool or string
}

// List returns the hyperparameters in the order of config.yaml.
func (h *Hyperparameters) List() []Hyperparameter {
	var all []Hyperparameter
	for _, setting := range rows(h.table()) {
		one := Hyperparameter{Name: setting.name, Description: setting.help, Value: setting.value.String()}
		switch field := setting.value.(type) {
		case value[uint64]:
			one.Value = float64(*field.field)
		case value[int]:
			one.Value = float64(*field.field)
		case value[bool]:
			one.Value = *field.field
		case value[float64]:
			if field.kind != kindLearned {
				one.Value = *field.field
			}
		}
		all = append(all, one)
	}
	return all
}

// Overrides returns the names of the settings that an experiment may override, and which of them are lists, such as
// hidden: 64,64.
func Overrides() (names []string, lists map[string]bool) {
	lists = map[string]bool{}
	for _, setting := range rows(new(Settings).table(), result, length) {
		names = append(names, setting.name)
		lists[setting.name] = setting.value.Type() == kindList
	}
	return names, lists
}
