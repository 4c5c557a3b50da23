package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/config"
)

// learner --help has at most 25 flags, with --help, --help-all and --version; --help-all has each flag once.
func TestUsage(t *testing.T) {
	flags := pflag.NewFlagSet("learner", pflag.ContinueOnError)
	loader := config.NewLoader(flags)
	var usual, all []string
	for _, group := range loader.Usage(false) {
		usual = append(usual, group.Flags...)
	}
	for _, group := range loader.Usage(true) {
		all = append(all, group.Flags...)
	}
	if len(usual) > 25-3 {
		t.Errorf("%d flags in the help: %s", len(usual), usual)
	}
	for _, name := range usual {
		if !slices.Contains(all, name) {
			t.Errorf("the help has --%s, which does not exist", name)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		i := slices.Index(all, f.Name)
		if i < 0 || slices.Contains(all[i+1:], f.Name) {
			t.Errorf("--%s is not once in the help with all flags", f.Name)
		}
	})
}

// An answer to a flag of another program names flags that exist.
func TestForeignFlags(t *testing.T) {
	for _, name := range strings.Fields("total-timesteps lr learning_rate n-steps num-steps n-envs num_envs policy algo env-id clip-range clip-coef target-kl " +
		"ent-coef vf-coef batch-size n-epochs update-epochs gae_lambda lambda max-grad-norm anneal-lr tensorboard-log cuda torch-deterministic") {
		flags := pflag.NewFlagSet("learner", pflag.ContinueOnError)
		config.NewLoader(flags)
		err := flags.Parse([]string{"--" + name, "1"})
		if err == nil {
			continue // ours has that name
		}
		answer := config.Explain(flags, err).Error()
		if strings.Contains(answer, "did you mean") || answer == err.Error() {
			t.Errorf("--%s is not explained: %s", name, answer)
		}
	}
	for _, word := range strings.Fields(config.ForeignAnswers()) {
		name, found := strings.CutPrefix(strings.TrimRight(word, ",.;:"), "--")
		flags := pflag.NewFlagSet("learner", pflag.ContinueOnError)
		config.NewLoader(flags)
		if found && name != "coordinator" && name != "checkpoints" && name != "episodes" && flags.Lookup(name) == nil {
			t.Errorf("an answer names --%s, which does not exist", name)
		}
	}
}
