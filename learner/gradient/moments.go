package gradient

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/critic"
)

// moments computes the process's mean and variance of V, A and Q at the batch's points
// and at the queries.
func (c *computation) moments(batch gp.Points) error {
	if err := c.predict("", batch); err != nil {
		return err
	}
	if c.Queries() == 0 {
		return nil
	}
	return c.predict("query_", c.queries())
}

// queries returns the further points as the process sees them.
func (c *computation) queries() gp.Points {
	m := c.Queries()
	observations := c.scope.FromSlice(m, c.Shape.Observation, c.QueryObservations)
	scores := c.at.ScoresAt(c.scope, c.Policy, observations, c.scope.FromSlice(m, c.Shape.Action, c.QueryActions))
	return gp.Points{
		Features: critic.Evaluate(c.scope, c.Critic, observations).Features(),
		Fisher:   c.at.SVD.Rows(c.scope, scores),
	}
}

// predict puts prefix{v,a,q}_{mean,var}. Conjugate gradients take a solution for each
// variance: those of large batches are left out.
func (c *computation) predict(prefix string, at gp.Points) error {
	posterior, ok := c.posterior.(gp.Predictor)
	if !ok {
		return nil
	}
	m := at.Features.Rows
	mean, variance := c.scope.New(m, 1), c.scope.New(m, 1)
	if c.options.Solver == config.ConjugateGradient && m > smallBatch {
		variance = compute.Block{}
	}
	for _, part := range []struct {
		name string
		part gp.Part
	}{{"v", gp.Value}, {"a", gp.Advantage}, {"q", gp.ActionValue}} {
		if err := posterior.Predict(part.part, at, mean, variance); errors.Is(err, gp.ErrExactFisherKernel) {
			continue
		} else if err != nil {
			return err
		}
		c.column(prefix+part.name+"_mean", mean)
		if variance.Rows > 0 {
			c.column(prefix+part.name+"_var", variance)
		}
	}
	return nil
}
