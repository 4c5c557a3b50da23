package play

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Bounds on a viewer's commands.
const (
	minSpeed, maxSpeed = 1. / 8, 4
	maxPoint           = 100 // distance in m, from the body, of where it is pushed
	maxIndex           = 1 << 32
	maxSeed            = 1 << 53 // JavaScript's numbers are exact up to here
)

// Command is a viewer's command.
type Command struct {
	// Do is the verb:
	//
	//	pause, play, step    stop, go on, or take a single step
	//	speed                go at Speed times real time
	//	reset                begin the episode of Seed and Episode
	//	action               take the Action "mean" or "sampled"
	//	checkpoint           play another Checkpoint, as runs.Location.Open takes it; "newest" follows the training
	//	push                 push Body at Point, in its frame, with Force, in the world, for a quarter of a second
	//	contacts             send contacts, if On
	Do         string     `json:"do"`
	Speed      float64    `json:"speed"`
	Seed       uint64     `json:"seed"`
	Episode    uint64     `json:"episode"`
	Action     string     `json:"action"`
	Checkpoint string     `json:"checkpoint"`
	Body       int        `json:"body"`
	Point      [3]float64 `json:"point"`
	Force      [3]float64 `json:"force"` // in N
	On         bool       `json:"on"`
}

// actions are the names of the kinds of actions.
var actions = map[string]evaluate.Action{"mean": evaluate.Mean, "sampled": evaluate.Sampled}

// parse returns a viewer's command, checked except against the model.
func parse(data []byte) (c Command, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("a command: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return c, errors.New("more than one command in a message")
	}
	switch c.Do {
	case "pause", "play", "step", "contacts":
	case "speed":
		if !(c.Speed >= minSpeed && c.Speed <= maxSpeed) {
			return c, fmt.Errorf("speed %v: must be from 1/8 to 4", c.Speed)
		}
	case "reset":
		if c.Episode >= maxIndex || c.Seed > maxSeed {
			return c, fmt.Errorf("episode %d of seed %d: too large", c.Episode, c.Seed)
		}
	case "action":
		if _, ok := actions[c.Action]; !ok {
			return c, fmt.Errorf(`action %q: must be "mean" or "sampled"`, c.Action)
		}
	case "checkpoint":
		return c, checkWhich(c.Checkpoint)
	case "push":
		if n := norm(c.Point); !(n <= maxPoint) || math.IsInf(norm(c.Force), 1) {
			return c, fmt.Errorf("a push of %v N at %v: out of bounds", c.Force, c.Point)
		}
	default:
		return c, fmt.Errorf("unknown command %q", c.Do)
	}
	return c, nil
}

// checkWhich returns an error unless which names a checkpoint.
func checkWhich(which string) error {
	_, err := strconv.ParseUint(which, 10, 64)
	if err != nil && which != runs.BestCheckpoint && which != runs.NewestCheckpoint {
		return fmt.Errorf("checkpoint %.20q: must be best, newest or an iteration", which)
	}
	return nil
}

func norm(v [3]float64) float64 { return math.Hypot(math.Hypot(v[0], v[1]), v[2]) }
