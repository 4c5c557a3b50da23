package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// Names of the files, as the Hub and its tools know them.
const (
	tensorsName  = "policy.safetensors"
	onnxName     = "policy.onnx"
	examplesName = "examples.npz"
	configName   = "config.json"
	resultsName  = "results.json"
	cardName     = "README.md"
	replayName   = "replay.mp4"
)

// description is config.json: the policy's shape, and the settings that it was trained with.
type description struct {
	Library        string            `json:"library_name"`
	Task           string            `json:"task"`
	ObservationDim int               `json:"observation_dim"`
	ActionDim      int               `json:"action_dim"`
	Hidden         []int             `json:"hidden"`
	Activation     string            `json:"activation"`
	Clip           float64           `json:"observation_clip"`
	Low            json.RawMessage   `json:"action_low"`
	High           json.RawMessage   `json:"action_high"`
	Choices        []int             `json:"action_choices,omitempty"`
	Iteration      uint64            `json:"iteration"`
	Steps          uint64            `json:"steps"`
	Checkpoint     string            `json:"checkpoint_sha256"`
	Settings       map[string]string `json:"settings"`
}

func (p *Policy) description() description {
	c := p.checkpoint
	return description{
		"dbqpg", c.Task(), p.Shape.Observation, p.Shape.Action, p.Shape.Hidden, "tanh", p.Normalizer.Clip,
		json.RawMessage(array(p.Low)), json.RawMessage(array(p.High)), p.Shape.Choices,
		c.State.Iteration, c.State.Steps, c.SHA256, c.Settings,
	}
}

// results is results.json: the fields that the Hub's leaderboards read, then ours.
type results struct {
	MeanReward    float64 `json:"mean_reward"`
	StdReward     float64 `json:"std_reward"`
	Deterministic bool    `json:"is_deterministic"`
	Episodes      int     `json:"n_eval_episodes"`
	Time          string  `json:"eval_datetime"`
	StandardError float64 `json:"standard_error"`
	IQM           float64 `json:"iqm"`
	MeanLength    float64 `json:"mean_length"`
	Seed          uint64  `json:"seed"`
	Engine        string  `json:"engine"`
}

func newResults(seed uint64, episodes []evaluate.Episode, now time.Time) *results {
	var returns []float64
	for _, e := range episodes {
		returns = append(returns, e.Return)
	}
	_, deviation := stats.MeanStdDev(returns)
	s := evaluate.Summarize(episodes)
	return &results{
		s.Mean, deviation, true, len(episodes), now.UTC().Format(time.RFC3339),
		s.StandardError, s.IQM, s.LengthMean, seed, tasks.Engine(),
	}
}

// files returns the folder's files by name. r is nil for a policy that has not been evaluated.
func files(p *Policy, r *results) (map[string][]byte, error) {
	tensors, err := p.tensors()
	if err != nil {
		return nil, err
	}
	examples, err := p.examples()
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	if err := npz.Write(&archive, examples); err != nil {
		return nil, err
	}
	all := map[string][]byte{
		tensorsName: tensors, onnxName: p.onnx(), examplesName: archive.Bytes(),
		configName: indented(p.description()), cardName: card(p, r),
	}
	if r != nil {
		all[resultsName] = indented(r)
	}
	return all, nil
}

func indented(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // all numbers are finite
	}
	return append(text, '\n')
}

// write writes the files to a directory, creating it if necessary. Without replace, files that are there are an error.
func write(directory string, all map[string][]byte, replace bool) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("create the folder: %w", err)
	}
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		path := filepath.Join(directory, name)
		if _, err := os.Lstat(path); !replace && !errors.Is(err, fs.ErrNotExist) {
			there := fmt.Errorf("%s is there already: --force replaces it, or choose another folder", path)
			return errors.Join(there, err)
		}
	}
	for _, name := range names {
		if err := atomicfile.Write(filepath.Join(directory, name), all[name]); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	return nil
}
