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
	if state.Counters, err = parseCounters(f.Metadata); err != nil {
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

func (c *Counters) metadata() map[string]string {
	metadata := map[string]string{
		"format":    format,
		"iteration": strconv.FormatUint(c.Iteration, 10),
		"epoch":     strconv.FormatUint(c.Epoch, 10),
		"steps":     strconv.FormatUint(c.Steps, 10),
		"episodes":  strconv.FormatUint(c.Episodes, 10),
		"elapsed":   c.Elapsed.String(),
	}
	if c.Best != nil {
		metadata["best_return"] = strconv.FormatFloat(c.Best.Return, 'g', -1, 64)
		metadata["best_iteration"] = strconv.FormatUint(c.Best.Iteration, 10)
		metadata["best_evaluated"] = strconv.FormatBool(c.Best.Evaluated)
	}
	if c.From != "" {
		metadata["from_sha256"] = c.From
	}
	return metadata
}

func parseCounters(metadata map[string]string) (Counters, error) {
	var failed error
	check := func(key string, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("%w: %s is %.40q", ErrCorrupt, key, metadata[key])
		}
	}
	count := func(key string) uint64 {
		n, err := strconv.ParseUint(metadata[key], 10, 64)
		check(key, err)
		return n
	}
	c := Counters{
		Iteration: count("iteration"),
		Epoch:     count("epoch"),
		Steps:     count("steps"),
		Episodes:  count("episodes"),
		From:      metadata["from_sha256"],
	}
	elapsed, err := time.ParseDuration(metadata["elapsed"])
	check("elapsed", err)
	c.Elapsed = elapsed
	if _, ok := metadata["best_return"]; ok {
		value, err := strconv.ParseFloat(metadata["best_return"], 64)
		check("best_return", err)
		c.Best = &Best{Return: value, Iteration: count("best_iteration"), Evaluated: metadata["best_evaluated"] == "true"}
	}
	return c, failed
}
