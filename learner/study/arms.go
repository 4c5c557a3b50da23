package main

import (
	"fmt"
	"strings"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/train"
)

// arms are changes to a queue's runs that no setting makes: an experiment's controls. An arm returns nil for a run that
// cannot have it.
var arms = map[string]func(s *config.Settings) func(l *train.Learner){
	// DBQPG and Monte Carlo with UAPG's correction, by the Fisher matrix alone.
	"fisher-uapg": func(s *config.Settings) func(l *train.Learner) {
		if s.Estimator != config.MonteCarlo && s.Estimator != config.DBQPG || s.Algorithm == config.Vanilla {
			return nil
		}
		return func(l *train.Learner) {
			l.Rank = s.Rank
			l.Correction = func(*train.Evaluation, train.Random) estimators.Correction {
				return estimators.FisherUAPG{Epsilon: s.Epsilon, Decompose: estimators.Projected}
			}
		}
	},
	"ridge-baseline": baselined(ridgeBaseline),
	"mean-baseline":  baselined(meanBaseline),
}

// baselined is Monte Carlo with returns less a baseline of their own batch.
func baselined(baseline train.Baseline) func(s *config.Settings) func(l *train.Learner) {
	return func(s *config.Settings) func(l *train.Learner) {
		if s.Estimator != config.MonteCarlo || s.Targets != config.Returns {
			return nil
		}
		return func(l *train.Learner) { l.Targets = train.Returns{Gamma: s.Gamma, Baseline: baseline} }
	}
}

// armOf returns the change that an arm, "" for none, makes to a run.
func armOf(name string, s *config.Settings) (change func(l *train.Learner), err error) {
	arm, ok := arms[name]
	switch {
	case name == "":
		return nil, nil
	case !ok:
		return nil, fmt.Errorf("arm: there is no %q; there are %s", name, strings.Join(sortedKeys(arms), ", "))
	}
	if change = arm(s); change == nil {
		return nil, fmt.Errorf("arm: %s is not for %s by %s with the targets %s", name, s.Estimator, s.Algorithm,
			s.Targets)
	}
	return change, nil
}
