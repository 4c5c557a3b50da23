package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
)

// cardTemplate is the model card: metadata as the Hub indexes them for reinforcement learning, then text for readers.
var cardTemplate = template.Must(template.New("card").Funcs(template.FuncMap{"quote": quote}).Parse(`---
library_name: dbqpg
tags:
- {{quote .Task}}
- deep-reinforcement-learning
- reinforcement-learning
- dbqpg
- onnx
model-index:
- name: {{quote .Name}}
  results:{{if not .Results}} []{{else}}
  - task:
      type: reinforcement-learning
      name: reinforcement-learning
    dataset:
      name: {{quote .Task}}
      type: {{quote .Task}}
    metrics:
    - type: mean_reward
      value: {{.Reward}}
      name: mean_reward
      verified: false{{end}}
---

# {{.Name}} on {{.Task}}

A {{.Kind}} policy with a tanh network, trained for {{.Iteration}} iterations ({{.Steps}} steps) with **dbqpg**,
Deep Bayesian Quadrature Policy Optimization: estimator {{.Estimator}}, {{.Algorithm}} steps, seed {{.Seed}}.
{{if .Results}}
Mean return of {{.Results.Episodes}} episodes with the {{.Played}}: **{{.Reward}}** (standard deviation; standard error
of the mean {{printf "%.2f" .Results.StandardError}}, interquartile mean {{printf "%.2f" .Results.IQM}}).
results.json has the numbers.
{{else}}
It has not been evaluated.
{{end}}
| file | what |
|---|---|
| ` + "`policy.onnx`" + ` | observation (batch, {{.Observation}}) to {{.Played}} (batch, {{.Action}}), {{.Type}}, ` +
	`normaliser and clipping included |
| ` + "`policy.safetensors`" + ` | the parameters, by name |
| ` + "`config.json`" + ` | the shape, and the settings of the training |
| ` + "`examples.npz`" + ` | observations and their actions, to check a deployment with |

` + "```python" + `
import dbqpg  # or onnxruntime with policy.onnx

policy = dbqpg.load(".")
action = policy(observation)
` + "```" + `
`))

// card returns README.md. r is nil for a policy that has not been evaluated.
func card(p *Policy, r *results) []byte {
	c := p.checkpoint
	data := struct {
		Task, Name, Algorithm, Estimator, Seed, Reward string
		Kind, Played, Type                             string
		Iteration, Steps                               uint64
		Observation, Action                            int
		Results                                        *results
	}{
		Task: c.Task(), Name: strings.ToUpper(c.Settings["algorithm"] + "-" + c.Settings["estimator"]),
		Algorithm: c.Settings["algorithm"], Estimator: c.Settings["estimator"], Seed: c.Settings["seed"],
		Iteration: c.State.Iteration, Steps: c.State.Steps,
		Observation: p.Shape.Observation, Action: p.Shape.Action, Results: r,
		Kind: "Gaussian", Played: "mean action", Type: "float32",
	}
	if p.Shape.Choices != nil {
		data.Kind, data.Played, data.Type = "categorical", "likeliest action", "float32 to int64"
	}
	if r != nil {
		data.Reward = fmt.Sprintf("%.2f +/- %.2f", r.MeanReward, r.StdReward)
	}
	var text bytes.Buffer
	if err := cardTemplate.Execute(&text, data); err != nil {
		panic(err) // a buffer takes everything
	}
	return text.Bytes()
}

// quote returns a text as YAML: a JSON string is one.
func quote(text string) (string, error) {
	quoted, err := json.Marshal(text)
	return string(quoted), err
}
