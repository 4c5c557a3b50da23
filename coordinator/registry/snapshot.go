package registry

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// header begins a snapshot. Its number is the encoding's version.
	header = "dbqpg registry 1\n"
	// MaxSnapshot bounds a snapshot, in bytes. Ten thousand runs take about 6 MB.
	MaxSnapshot = 512 << 20
	// MaxCommand bounds an encoded command.
	MaxCommand = 1 << 20
)

// Encode writes the state: a line that says what follows, then one JSON object. The same
// state is always the same bytes.
func (s *State) Encode(w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	_, _ = buffered.WriteString(header) // an error shows at the flush
	if err := json.NewEncoder(buffered).Encode(s); err != nil {
		return fmt.Errorf("encode the registry: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write the registry: %w", err)
	}
	return nil
}

// Decode reads what Encode wrote. It refuses what no series of commands could have led to,
// as far as that would hurt later.
func Decode(r io.Reader) (*State, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSnapshot+1))
	if err != nil {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	if len(data) > MaxSnapshot {
		return nil, fmt.Errorf("a registry of more than %d bytes", MaxSnapshot)
	}
	body, ok := bytes.CutPrefix(data, []byte(header))
	if !ok {
		return nil, fmt.Errorf("this is no registry of this version: it begins with %.20q and not with %q", data, header)
	}
	s := New()
	if err := DecodeStrictly(body, s); err != nil {
		return nil, fmt.Errorf("decode the registry: %w", err)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("the registry contradicts itself: %w", err)
	}
	return s, nil
}

// EncodeCommand returns a command as it stands in the log.
func EncodeCommand(c Command) ([]byte, error) {
	data, err := json.Marshal(c)
	if err == nil && len(data) > MaxCommand {
		err = refuse(Invalid, "a command of %d bytes; at most %d are allowed", len(data), MaxCommand)
	}
	return data, err
}

// DecodeCommand reads a command. It knows no other fields than Command's.
func DecodeCommand(data []byte) (Command, error) {
	var c Command
	if len(data) > MaxCommand {
		return c, refuse(Invalid, "a command of %d bytes; at most %d are allowed", len(data), MaxCommand)
	}
	if err := DecodeStrictly(data, &c); err != nil {
		return c, refuse(Invalid, "this is no command: %v", err)
	}
	return c, nil
}

// DecodeStrictly decodes one JSON value without unknown fields and with nothing behind it.
func DecodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}

// validate checks what the rules take for granted, and finds the places of the runs.
func (s *State) validate() error {
	if len(s.Runs) > MaxRuns || len(s.Experiments) > MaxExperiments || len(s.Clients) > MaxClients ||
		len(s.Seen) > MaxSeen || len(s.Nodes) > MaxNodes {
		return errors.New("it holds more than is ever kept")
	}
	known := make(map[string]bool, len(s.Experiments))
	for _, e := range s.Experiments {
		known[e.Spec.Name] = true
	}
	for i := range s.Runs {
		run := &s.Runs[i]
		switch run.State {
		case Queued, Running, Done, Failed, Cancelled:
		default:
			return fmt.Errorf("run %q is %q", run.Name, run.State)
		}
		if (run.State == Running) != (run.Lease != nil) {
			return fmt.Errorf("run %q is %s, lease %v", run.Name, run.State, run.Lease)
		}
		if !known[run.Experiment] {
			return fmt.Errorf("run %q is of no experiment", run.Name)
		}
	}
	if s.index(); len(s.runs) != len(s.Runs) || len(known) != len(s.Experiments) {
		return errors.New("a name is there twice")
	}
	return nil
}
