package runs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/safetensors"
)

// ErrCorrupt is wrapped by errors about a file that is not an intact checkpoint.
var ErrCorrupt = errors.New("corrupt checkpoint")

// ErrVersion is wrapped by errors about a checkpoint of a different version of the program.
var ErrVersion = errors.New("checkpoint of another version of the program")

const (
	// The number changes with the file format, and when the program's results change: an earlier run cannot resume.
	format         = "dbqpg checkpoint 3"
	settingsPrefix = "setting."
	checksumName   = "sha256"
)

// Encode returns the file of a state and its run's settings. Equal states give equal bytes.
func Encode(state *State, settings map[string]string) ([]byte, error) {
	f := &safetensors.File{Metadata: state.metadata(), Tensors: state.tensors()}
	for name, value := range settings {
		f.Metadata[settingsPrefix+name] = value
	}
	f.Tensors = append(f.Tensors, safetensors.Tensor{
		Name: checksumName, Type: "U8", Shape: []int{sha256.Size}, Data: make([]byte, sha256.Size)})
	data, err := safetensors.Encode(f)
	if err != nil {
		return nil, err
	}
	sealed := data[:len(data)-sha256.Size]
	sum := sha256.Sum256(sealed)
	return append(sealed, sum[:]...), nil
}

// Decode is the inverse of Encode. Its errors wrap ErrCorrupt or ErrVersion.
func Decode(data []byte) (*State, map[string]string, error) {
	if len(data) < sha256.Size {
		return nil, nil, fmt.Errorf("%w: %d bytes are too few", ErrCorrupt, len(data))
	}
	sealed, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if sha256.Sum256(sealed) != [sha256.Size]byte(sum) {
		return nil, nil, fmt.Errorf("%w: its checksum is wrong, the file is damaged or cut short", ErrCorrupt)
	}
	f, err := safetensors.Decode(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if f.Metadata["format"] != format {
		return nil, nil, fmt.Errorf("%w: it is a %.40q, not a %q", ErrVersion, f.Metadata["format"], format)
	}
	state := new(State)
	if err := state.parse(f.Metadata); err != nil {
		return nil, nil, err
	}
	if err := state.assemble(f); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	settings := map[string]string{}
	for key, value := range f.Metadata {
		if name, ok := strings.CutPrefix(key, settingsPrefix); ok {
			settings[name] = value
		}
	}
	return state, settings, nil
}

// numbers returns the counters by their names in the metadata.
func (c *Counters) numbers() map[string]*uint64 {
	all := map[string]*uint64{"iteration": &c.Iteration, "epoch": &c.Epoch, "steps": &c.Steps, "episodes": &c.Episodes}
	if c.Best != nil {
		all["best_iteration"] = &c.Best.Iteration
	}
	return all
}

func (c *Counters) metadata() map[string]string {
	metadata := map[string]string{"format": format, "elapsed": c.Elapsed.String()}
	for name, n := range c.numbers() {
		metadata[name] = strconv.FormatUint(*n, 10)
	}
	if c.Best != nil {
		metadata["best_return"] = strconv.FormatFloat(c.Best.Return, 'g', -1, 64)
		metadata["best_evaluated"] = strconv.FormatBool(c.Best.Evaluated)
	}
	if c.From != "" {
		metadata["from_sha256"] = c.From
	}
	return metadata
}

// parse is the inverse of metadata.
func (c *Counters) parse(metadata map[string]string) (err error) {
	wrong := func(name string) error { return fmt.Errorf("%w: %s is %.40q", ErrCorrupt, name, metadata[name]) }
	if c.Elapsed, err = time.ParseDuration(metadata["elapsed"]); err != nil {
		return wrong("elapsed")
	}
	if text, ok := metadata["best_return"]; ok {
		c.Best = &Best{Evaluated: metadata["best_evaluated"] == "true"}
		if c.Best.Return, err = strconv.ParseFloat(text, 64); err != nil {
			return wrong("best_return")
		}
	}
	for name, n := range c.numbers() {
		if *n, err = strconv.ParseUint(metadata[name], 10, 64); err != nil {
			return wrong(name)
		}
	}
	c.From = metadata["from_sha256"]
	return nil
}
