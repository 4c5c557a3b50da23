package external

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/sim"
)

// A File is the contents of a task file: a task, and the command that simulates it.
type File struct {
	Name         string    `yaml:"name"`
	Observations int       `yaml:"observations"`           // numbers in an observation
	Actions      int       `yaml:"actions"`                // numbers in an action
	Low          []float64 `yaml:"low,flow,omitempty"`     // bounds of an action; none: unbounded
	High         []float64 `yaml:"high,flow,omitempty"`    //
	Choices      []int     `yaml:"choices,flow,omitempty"` // of each action, an index from 0: in place of bounds
	Steps        int       `yaml:"steps"`                  // time limit
	Command      []string  `yaml:"command,flow"`           // program and arguments
	Directory    string    `yaml:"directory,omitempty"`    // where it runs; default: the file's
	Environments int       `yaml:"environments,omitempty"` // a process; 0: 8
	Limits       Limits    `yaml:"limits,flow,omitempty"`  //
}

// Limits are the times after which a process counts as hung and is killed. 0 means the default.
type Limits struct {
	Start   time.Duration `yaml:"start,omitempty"`   // until it has made its environments: 2m
	Step    time.Duration `yaml:"step,omitempty"`    // for a step or a reset of one environment: 10s
	Episode time.Duration `yaml:"episode,omitempty"` // lease of a ticket: 1m
}

const (
	defaultEnvironments = 8
	maxEnvironments     = 128
	maxFile             = 64 << 10
	maxDim              = 1 << 16 // of observations and actions
	// bytes of an episode's arrays, which one message has room for (proto.MaxEpisode)
	maxEpisode = 16<<20 - 4<<10
)

// namePattern is the syntax of task names.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Load reads a task file.
func Load(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the task file: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the task file: %w", err)
	}
	directory, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("read the task file: %w", err)
	}
	f, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("task file %s: %w", path, err)
	}
	if !filepath.IsAbs(f.Directory) {
		f.Directory = filepath.Join(directory, f.Directory)
	}
	return f, nil
}

// Parse is Load for a file's contents, which [File.String] gives.
func Parse(data []byte) (*File, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes, the limit for a task", maxFile)
	}
	limits := Limits{Start: 2 * time.Minute, Step: 10 * time.Second, Episode: time.Minute}
	f := &File{Environments: defaultEnvironments, Limits: limits}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(f); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return f, f.check()
}

func (f *File) check() error {
	_, err := sim.Lookup(f.Name)
	episode := f.Steps * (4*(f.Observations+f.Actions) + 8)
	switch {
	case !namePattern.MatchString(f.Name):
		return fmt.Errorf("name %q: it must be letters, digits, - and _, at most 64", f.Name)
	case err == nil:
		return fmt.Errorf("name %s: that is a built-in task; choose another name", f.Name)
	case f.Observations < 1 || f.Observations > maxDim:
		return fmt.Errorf("observations %d: must be from 1 to %d", f.Observations, maxDim)
	case f.Actions < 1 || f.Actions > maxDim:
		return fmt.Errorf("actions %d: must be from 1 to %d", f.Actions, maxDim)
	case f.Steps < 1:
		return fmt.Errorf("steps %d: must be at least 1, the number of steps after which an episode is ended", f.Steps)
	case f.Steps > maxEpisode || episode > maxEpisode:
		return fmt.Errorf("steps %d: an episode would take %d bytes, and at most %d are possible; lower it",
			f.Steps, episode, maxEpisode)
	case len(f.Command) == 0 || f.Command[0] == "":
		return errors.New("command: must be a list of a program and its arguments")
	case f.Environments < 1 || f.Environments > maxEnvironments:
		return fmt.Errorf("environments %d: must be from 1 to %d, as many as a process has", f.Environments,
			maxEnvironments)
	case f.Limits.Start <= 0 || f.Limits.Step <= 0 || f.Limits.Episode <= 0:
		return errors.New("limits: start, step and episode must be above 0s")
	}
	return f.checkBounds()
}

func (f *File) checkBounds() error {
	if f.Choices != nil {
		return f.checkChoices()
	}
	if f.Low == nil && f.High == nil {
		return nil
	}
	if len(f.Low) != f.Actions || len(f.High) != f.Actions {
		return fmt.Errorf("low and high: %d and %d numbers, want one for each of %d actions", len(f.Low), len(f.High),
			f.Actions)
	}
	for i := range f.Low {
		if !(f.Low[i] <= f.High[i]) || math.IsInf(f.Low[i], 1) || math.IsInf(f.High[i], -1) {
			return fmt.Errorf("low and high: %v and %v do not bound action %d", f.Low[i], f.High[i], i)
		}
	}
	return nil
}

func (f *File) checkChoices() error {
	if len(f.Choices) != f.Actions {
		return fmt.Errorf("choices: %d numbers, want one for each of %d actions", len(f.Choices), f.Actions)
	}
	if f.Low != nil || f.High != nil {
		return errors.New("choices, low and high: choices have no bounds; give one or the other")
	}
	sum := 0
	for _, n := range f.Choices {
		if n < 1 || n > maxDim-sum {
			return fmt.Errorf("choices %v: each must be at least 1, and all together at most %d", f.Choices, maxDim)
		}
		sum += n
	}
	return nil
}

// String is the file's contents on a line.
func (f *File) String() string { return flow(f) }

// Identity returns the part of the file that determines results, on a line. It lacks the properties of a machine: the
// program's path, the directory, environments and limits.
func (f *File) Identity() string {
	same := *f
	same.Command = append([]string{"-"}, f.Command[1:]...)
	same.Directory, same.Environments, same.Limits = "", 0, Limits{}
	return flow(&same)
}

// flow writes a file as YAML on a line.
func flow(f *File) string {
	var node yaml.Node
	if err := node.Encode(f); err != nil {
		panic(err) // a File always has a form
	}
	node.Style = yaml.FlowStyle
	data, err := yaml.Marshal(&node)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(data))
}

// Spec describes the task. Its name is the file's and a digest of the file's identity, "Name@1f2e3d4c5b6a": by it,
// runs and actors know each other's tasks.
func (f *File) Spec() sim.Spec {
	digest := sha256.Sum256([]byte(f.Identity()))
	low, high := f.Low, f.High
	for i := len(low); i < f.Actions; i++ {
		if f.Choices != nil {
			low, high = append(low, 0), append(high, float64(f.Choices[i]-1))
		} else {
			low, high = append(low, math.Inf(-1)), append(high, math.Inf(1))
		}
	}
	return sim.Spec{
		Name:           f.Name + "@" + hex.EncodeToString(digest[:6]),
		ObservationDim: f.Observations, ActionDim: f.Actions, Low: low, High: high, Choices: f.Choices,
		FrameSkip: 1, TimeLimit: f.Steps, Truncates: true,
	}
}
