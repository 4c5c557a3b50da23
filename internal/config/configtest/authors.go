// Package configtest provides settings to tests.
package configtest

import "github.com/dbqpg/dbqpg/internal/config"

// Authors returns the preset paper with the four settings in which the authors' code differs from it
// (docs/results/authors.yaml).
func Authors(task string, algorithm config.Algorithm, estimator config.Estimator) (config.Settings, error) {
	s, err := config.ForTask(task, algorithm, estimator, config.Paper)
	s.Noise, s.FisherVariance, s.Completion, s.Fisher = config.Learned, config.Learned, false, config.Analytic
	return s, err
}
