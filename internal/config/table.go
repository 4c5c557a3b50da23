package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/internal/observe"
)

// scope is what a setting has to do with a run's results.
type scope int

const (
	result  scope = iota // they depend on it: part of config.yaml and of every checkpoint
	length               // it says how many there are: part of config.yaml
	machine              // it does not touch them: part of config.yaml
	command              // it is about this one start of the program
)

// setting is a row of the table: one field of Settings by the name it has everywhere.
type setting struct {
	name  string // as in a file: lower case, words joined by "_"
	scope scope
	value pflag.Value
	help  string
}

// flag is the setting's name on the command line.
func (s setting) flag() string { return strings.ReplaceAll(s.name, "_", "-") }

// variable is its name in the environment.
func (s setting) variable() string { return variablePrefix + strings.ToUpper(s.name) }

const variablePrefix = "DBQPG_"

// section is a group of rows under a heading.
type section struct {
	title    string
	settings []setting
}

// table is every setting, bound to the fields of s. It is the order of config.yaml too.
func (s *Settings) table() []section {
	return []section{
		{"What is learned", []setting{
			{"env", result, text(&s.Env), "task, such as Swimmer-v2"},
			{"algorithm", result, choice(&s.Algorithm, Vanilla, NPG, TRPO), "how a gradient becomes a step"},
			{"estimator", result, choice(&s.Estimator, MonteCarlo, DBQPG, UAPG, UBAC), "how a batch becomes a gradient; ubac needs vanilla"},
			{"preset", result, presetName(&s.Preset), "values of noise, fisher_variance, completion and fisher"},
			{"seed", result, count(&s.Seed), "of all randomness; the same seed gives the same run"},
			{"iterations", length, count(&s.Iterations), "iterations in all, those of a resumed run included"},
		}},
		{"The batch", []setting{
			{"batch", result, whole(&s.Batch), "environment steps at least"},
			{"hidden", result, sizes(&s.Hidden), "widths of the policy's hidden layers"},
			{"clip", result, number(&s.Clip), "bound on normalised observations"},
		}},
		{"The targets", []setting{
			{"targets", result, choice(&s.Targets, Returns, GAE), "discounted returns or generalised advantages"},
			{"gamma", result, number(&s.Gamma), "discount factor"},
			{"gae_lambda", result, number(&s.GAELambda), "generalised advantages' decay"},
			{"bootstrap", result, truth(&s.Bootstrap), "let episodes that the time limit ends go on with their last state's value"},
		}},
		{"The policy's step", []setting{
			{"learning_rate", result, number(&s.LearningRate), "of the policy's Adam; without effect on trpo"},
			{"max_kl", result, number(&s.MaxKL), "trpo's bound on the divergence of a step"},
			{"damping", result, number(&s.Damping), "multiple of the identity added to the Fisher matrix"},
		}},
		{"Bayesian quadrature (dbqpg, uapg and ubac)", []setting{
			{"c1", result, number(&s.C1), "weight of the state kernel"},
			{"c2", result, number(&s.C2), "weight of the Fisher kernel"},
			{"noise", result, learnedOr(&s.Noise), "variance sigma² of the targets about the action values"},
			{"fisher_variance", result, learnedOr(&s.FisherVariance), "variance v of the Fisher kernel"},
			{"completion", result, truth(&s.Completion), "complete the Fisher kernel that the rank, or the damping, cuts off"},
			{"rank", result, whole(&s.Rank), "singular values kept of the scores"},
			{"base_kernel", result, baseKernel(&s.BaseKernel), "of the state kernel: " + nearest.List(kernels.Names())},
			{"features", result, choice(&s.Features, Deep, Raw), "what the state kernel sees: learned features, or the normalised observation"},
			{"inducing", result, whole(&s.Inducing), "samples that stand for all in the state kernel, as in bayesian actor-critic; 0 interpolates on a grid"},
			{"solver", result, choice(&s.Solver, Direct, ConjugateGradient), "closed form, or the paper's conjugate gradients"},
			{"fisher_kernel", result, choice(&s.FisherKernel, TruncatedSVD, Exact), "by the scores' singular vectors, or exact products (with --solver cg)"},
			{"fisher", result, choice(&s.Fisher, Empirical, Analytic), "Fisher matrix of natural gradients, of the exact kernel and of the uncertainty"},
			{"covariance", result, choice(&s.Covariance, Projected, Randomized), "its eigenpairs: closed form, or the paper's randomised decomposition"},
			{"fisher_samples", result, multiple(&s.FisherSamples), "samples of the Fisher matrix, such as 3x the gradient's"},
			{"epsilon", result, number(&s.Epsilon), "the most that uapg lengthens a direction"},
		}},
		{"The machine", []setting{
			{"device", machine, &s.Device, DeviceHelp},
			{"actors", machine, autoWhole(&s.Actors), "local actors; auto is one a core, 0 waits for such as join with actor --nats"},
			{"nats", machine, text(&s.NATS), "URL of an external NATS server; without it there is one in this process"},
			{"listen", machine, text(&s.Listen), "host:port of the NATS server in this process; auto is 127.0.0.1:4222, or a free port if that is taken"},
			{"credentials", machine, text(&s.Credentials), "directory of this learner's certificate and key: TLS and logins on NATS (docs/security.md)"},
			{"insecure_listen", machine, truth(&s.InsecureListen), "let --listen take in other machines without credentials"},
			{"keep_checkpoints", machine, counts(&s.KeepCheckpoints), "iterations whose checkpoints are kept besides the newest and the best, such as 0,150,300"},
			{"metrics_listen", machine, text(&s.MetricsListen), "host:port of an HTTP server of metrics, health and readiness, such as 127.0.0.1:9464 (docs/observability.md); without it there is none"},
			{"pprof", machine, truth(&s.Pprof), "serve Go's profiles there too"},
			{"log_level", machine, text(&s.LogLevel), "debug, info, warn or error"},
			{"log_format", machine, choice(&s.LogFormat, observe.Text, observe.JSON), "lines of key=value, or a JSON object a line"},
		}},
		{"A worker, which takes runs from a coordinator", []setting{
			{"worker", command, truth(&s.Worker), "train one run after the other that the coordinator has, until stopped (docs/workers.md)"},
			{"coordinator", command, text(&s.Coordinator), "URL of the coordinator, such as http://127.0.0.1:7070; several of one's nodes separated by commas"},
			{"checkpoints", command, text(&s.Checkpoints), "where all workers find a run's checkpoints: a directory that they share, or s3://bucket/prefix"},
			{"worker_name", command, text(&s.WorkerName), "unlike any other's (default: the host's name and the process's number)"},
			{"lease_term", command, duration(&s.LeaseTerm), "how soon another worker takes over from one that is not heard of any more"},
		}},
		{"This start", []setting{
			{"run_dir", command, text(&s.RunDir), "directory of the run (default runs/TASK/ALGORITHM-ESTIMATOR-sSEED)"},
			{"resume", command, choice(&s.Resume, ResumeNo, ResumeYes, ResumeAuto), "go on with the run in the run directory; auto starts it if there is none"},
			{"force", command, truth(&s.Force), "start over, moving the run that is there aside"},
			{"dry_run", command, truth(&s.DryRun), "print the settings and what would be done, and do nothing"},
		}},
	}
}

// all is the table without its headings.
func (s *Settings) all() []setting {
	var all []setting
	for _, section := range s.table() {
		all = append(all, section.settings...)
	}
	return all
}

// Set gives the setting of a name, as in a file, the value that text stands for.
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

// Identity returns the settings that the run's results depend on, as texts by name. Two runs with equal ones are
// the same run.
func (s *Settings) Identity() map[string]string {
	identity := map[string]string{}
	for _, setting := range s.all() {
		if setting.scope == result {
			identity[setting.name] = setting.value.String()
		}
	}
	return identity
}
