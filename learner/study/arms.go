package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/train"
)

// arm is a change to a queue's run that no setting makes: an experiment's control.
type arm struct {
	runs   string // that may have it
	fits   func(s *config.Settings) bool
	change func(l *train.Learner, s *config.Settings)
}

var arms = map[string]arm{
	// DBQPG and Monte Carlo with UAPG's correction, by the Fisher matrix alone.
	"fisher-uapg": {
		runs: "mc or dbqpg with npg or trpo",
		fits: func(s *config.Settings) bool {
			corrected := s.Estimator != config.MonteCarlo && s.Estimator != config.DBQPG
			return !corrected && s.Algorithm != config.Vanilla
		},
		change: func(l *train.Learner, s *config.Settings) {
			l.Rank = s.Rank
			l.Correction = func(*train.Evaluation, train.Random) estimators.Correction {
				return estimators.FisherUAPG{Epsilon: s.Epsilon, Decompose: estimators.Projected}
			}
		},
	},
	"ridge-baseline": baselined(ridgeBaseline),
	"mean-baseline":  baselined(meanBaseline),
}

// baselined is Monte Carlo with returns less a baseline of their own batch.
func baselined(baseline train.Baseline) arm {
	return arm{
		runs: "mc with --targets returns",
		fits: func(s *config.Settings) bool {
			return s.Estimator == config.MonteCarlo && s.Targets == config.Returns
		},
		change: func(l *train.Learner, s *config.Settings) {
			l.Targets = train.Returns{Gamma: s.Gamma, Baseline: baseline}
		},
	}
}

// checkArm says why a run with these settings cannot have an arm, "" being none.
func checkArm(name string, s *config.Settings) error {
	a, ok := arms[name]
	switch {
	case name == "" || ok && a.fits(s):
		return nil
	case !ok:
		return fmt.Errorf("arm: there is no %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(arms)), ", "))
	}
	return fmt.Errorf("arm: %s is for %s", name, a.runs)
}
