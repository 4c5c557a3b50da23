package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/commandline"
)

// usual lists the flags that learner --help shows.
var usual = []commandline.Group{
	{Title: "The task and the run", Flags: []string{
		"env", "task", "preset", "seed", "steps", "iterations", "run-dir", "resume", "force", "dry-run", "config"}},
	{Title: "The method", Flags: []string{"algorithm", "estimator", "batch", "gamma", "max-kl", "learning-rate"}},
	{Title: "Where it runs", Flags: []string{"device", "actors", "nats", "listen", "http"}},
}

// Usage returns the groups of flags that learner --help shows, or all of them.
func (l *Loader) Usage(all bool) []commandline.Group {
	if all {
		return groups(l.run.table())
	}
	return usual
}

// Usage returns the groups of a worker's flags.
func (l *WorkerLoader) Usage() []commandline.Group { return groups(l.worker.table()) }

// groups returns the sections of a table, the last of which has --config too.
func groups(table []section) []commandline.Group {
	var all []commandline.Group
	for _, section := range table {
		group := commandline.Group{Title: section.title}
		for _, row := range section.settings {
			group.Flags = append(group.Flags, row.flag())
		}
		all = append(all, group)
	}
	last := &all[len(all)-1]
	last.Flags = append(last.Flags, "config")
	return all
}

// foreign explains flags of Stable-Baselines3, RL Baselines3 Zoo, CleanRL and others.
var foreign = []struct{ flags, answer string }{
	{"total-timesteps n-timesteps num-timesteps timesteps max-steps", "here it is --steps"},
	{"n-iter num-iterations n-iterations max-iterations epochs", "here it is --iterations"},
	{"lr pi-lr policy-lr actor-lr", "here it is --learning-rate; trpo has --max-kl instead"},
	{"vf-lr value-lr critic-lr vf-coef",
		"the value function has its own optimiser, with a fixed rate (docs/advanced.md)"},
	{"n-steps num-steps",
		"here it is --segment, the steps of one stream in a batch; --batch is the sum over all streams"},
	{"n-envs num-envs streams",
		"a batch has --batch / --segment streams of episodes; --actors is the number of processes that play them"},
	{"num-workers n-workers n-jobs", "here it is --actors"},
	{"steps-per-epoch timesteps-per-batch", "here it is --batch"},
	{"batch-size", "here it is --batch, all of an iteration's steps; there are no minibatches"},
	{"n-epochs update-epochs num-minibatches minibatch-size",
		"there is one policy step per batch, from all of its steps"},
	{"policy policy-kwargs", "the policy is Gaussian, with a tanh network; --hidden sets its layers"},
	{"net-arch hidden-sizes hidden-size", "here it is --hidden"},
	{"log-std-init", "here it is --initial-std"},
	{"algo", "here it is --algorithm, with --estimator"},
	{"env-id env-name task-name gym-id", "here it is --env"},
	{"clip-range clip-coef clip-ratio clip-range-vf clip-vloss cliprange",
		"steps are bounded by their KL divergence: --max-kl"},
	{"target-kl delta max-kl-div", "here it is --max-kl"},
	{"ent-coef entropy-coef", "there is no entropy bonus; --initial-std and --std-rate keep the policy exploring"},
	{"max-grad-norm", "gradients are not clipped; --max-kl bounds trpo's steps"},
	{"anneal-lr lr-schedule", "the learning rate is constant"},
	{"normalize-advantage norm-adv", "generalised advantage estimates are always standardised"},
	{"lambda lam", "here it is --gae-lambda"},
	{"discount discount-factor", "here it is --gamma"},
	{"cg-max-steps cg-iters", "here it is --cg-iterations"},
	{"cg-damping", "here it is --damping"},
	{"cuda gpu", "here it is --device cuda"},
	{"torch-deterministic deterministic", "every run is deterministic"},
	{"eval-freq eval-every evaluation-interval", "here it is --evaluate-every, in iterations"},
	{"n-eval-episodes eval-episodes", "evaluations play a fixed number of episodes; learner evaluate has --episodes"},
	{"save-freq checkpoint-freq", "every iteration is saved; --keep-checkpoints keeps the ones you name"},
	{"load load-path trained-agent pretrained", "here it is --from, or --resume to continue a run"},
	{"log-dir logdir log-folder output-dir save-path exp-name", "here it is --run-dir"},
	{"tensorboard-log tb-log track wandb-project-name",
		"TensorBoard's files are always written, into the run directory"},
	{"capture-video render render-mode", "learner record and learner play show a trained policy"},
	{"worker", "start a worker with: learner worker --coordinator URL --checkpoints STORE"},
}

// Explain is [commandline.Explain] for the flags of a Loader or WorkerLoader: it answers the names that other programs
// have for a setting, and in a worker those of a run's settings.
func Explain(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return commandline.Explain(flags, err)
	}
	name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
	if flags.Lookup("env") == nil &&
		slices.ContainsFunc(new(Settings).all(), func(s setting) bool { return s.flag() == name }) {
		return fmt.Errorf("%w: the coordinator determines what a worker learns; put the setting into the sweep", err)
	}
	for _, f := range foreign {
		if slices.Contains(strings.Fields(f.flags), name) {
			return fmt.Errorf("%w: %s", err, f.answer)
		}
	}
	return commandline.Explain(flags, err)
}
