package export

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/safetensors"
	"github.com/dbqpg/dbqpg/learner/runs"
)

const policyFormat = "dbqpg policy 1"

// Policy is a trained policy with its normaliser and the bounds of its actions.
type Policy struct {
	*runs.Policy
	Low, High  []float64 // bounds of actions
	checkpoint *runs.Checkpoint
}

// newPolicy returns a checkpoint's policy.
func newPolicy(c *runs.Checkpoint) (*Policy, error) {
	inner, err := c.Policy()
	if err != nil {
		return nil, err
	}
	p := &Policy{Policy: inner, Low: c.State.Arrays["action.low"], High: c.State.Arrays["action.high"], checkpoint: c}
	if a := p.Shape.Action; len(p.Low) != a || len(p.High) != a {
		return nil, fmt.Errorf("%s: bounds of %d and %d actions for a policy of %d",
			c.Location, len(p.Low), len(p.High), a)
	}
	for i, low := range p.Low {
		if !(low <= p.High[i]) {
			return nil, fmt.Errorf("%s: action %d is bounded by %v and %v", c.Location, i, low, p.High[i])
		}
	}
	return p, nil
}

// metadata describes the policy, in the files that have room for texts.
func (p *Policy) metadata() map[string]string {
	c := p.checkpoint
	all := map[string]string{
		"format":            policyFormat,
		"task":              c.Task(),
		"iteration":         strconv.FormatUint(c.State.Iteration, 10),
		"steps":             strconv.FormatUint(c.State.Steps, 10),
		"checkpoint_sha256": c.SHA256,
		"observation_clip":  strconv.FormatFloat(p.Normalizer.Clip, 'g', -1, 64),
		"action_low":        array(p.Low),
		"action_high":       array(p.High),
	}
	if p.Shape.Choices != nil {
		all["action_choices"] = array(c.State.Arrays["action.choices"])
	}
	return all
}

// array returns a JSON array. JSON has no infinities: these are null.
func array(values []float64) string {
	texts := make([]*float64, len(values))
	for i, v := range values {
		if !math.IsInf(v, 0) {
			texts[i] = &v
		}
	}
	text, err := json.Marshal(texts)
	if err != nil {
		panic(err) // finite numbers have an encoding, and bounds are no NaN
	}
	return string(text)
}

// tensors returns the policy as a safetensors file, in float64.
func (p *Policy) tensors() ([]byte, error) {
	f := &safetensors.File{Metadata: p.metadata()}
	add := func(name string, values []float64, shape ...int) {
		f.Tensors = append(f.Tensors, safetensors.New(name, shape, values))
	}
	o, a := p.Shape.Observation, p.Shape.Action
	add("action.high", p.High, a)
	add("action.low", p.Low, a)
	network := p.Shape.Network()
	if p.Shape.Choices == nil {
		add("log_std", p.Params[network.NumParams():], a)
	} else {
		add("action.choices", p.checkpoint.State.Arrays["action.choices"], a)
	}
	add("normalizer.mean", p.Normalizer.Mean, o)
	add("normalizer.std", p.Normalizer.Std, o)
	f.Tensors = append(f.Tensors, runs.Layers("policy", network, p.Params)...)
	return safetensors.Encode(f)
}

const numExamples = 64

// examples returns observations and this program's actions for them, to check a deployment with. Half of the
// observations are far from those in training.
func (p *Policy) examples() (npz.Arrays, error) {
	actor, err := policy.NewActor(p.Shape, p.Params, p.Normalizer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.checkpoint.Location, err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var observations, actions []float64
	observation, action := make([]float32, p.Shape.Observation), make([]float32, p.Shape.Action)
	for i := range numExamples {
		spread := 1.
		if i >= numExamples/2 {
			spread = 10
		}
		for j := range observation {
			observation[j] = float32(p.Normalizer.Mean[j] + spread*p.Normalizer.Std[j]*rng.NormFloat64())
			observations = append(observations, float64(observation[j]))
		}
		actor.ActMode(observation, nil, action)
		for j, x := range action {
			actions = append(actions, min(max(float64(x), p.Low[j]), p.High[j]))
		}
	}
	return npz.Arrays{
		"observations": npz.Of(observations, numExamples, p.Shape.Observation),
		"actions":      npz.Of(actions, numExamples, p.Shape.Action),
	}, nil
}
