package registry

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// header begins a snapshot.
var header = fmt.Sprintf("dbqpg registry %d\n", Version)

const (
	trailer     = "sha256 %x\n" // ends it
	trailerSize = len("sha256 \n") + 2*sha256.Size
	// MaxSnapshot bounds a snapshot, in bytes. Ten thousand runs take about 6 MB; the largest state that commands can
	// make takes less than MaxSnapshot.
	MaxSnapshot = 8 << 30
	// MaxCommand bounds an encoded command.
	MaxCommand = 1 << 20
)

// Encode writes the state: a header line, one JSON object, and the SHA-256 of both. Equal states give equal bytes.
func (s *State) Encode(w io.Writer) error {
	sum := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	_, _ = buffered.WriteString(header) // Flush returns the error
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false) // < would take six bytes
	if err := encoder.Encode(s); err != nil {
		return fmt.Errorf("encode the registry: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write the registry: %w", err)
	}
	if _, err := fmt.Fprintf(w, trailer, sum.Sum(nil)); err != nil {
		return fmt.Errorf("write the registry: %w", err)
	}
	return nil
}

// Decode reads an encoded state. It returns an error for
// states that no series of commands could have produced, as far as they would cause failures later.
func Decode(r io.Reader) (*State, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSnapshot+1))
	if err != nil {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	if len(data) > MaxSnapshot {
		return nil, fmt.Errorf("the registry is larger than %d bytes", MaxSnapshot)
	}
	body, ok := bytes.CutPrefix(data, []byte(header))
	if !ok {
		return nil, fmt.Errorf("not a registry of this version: it begins with %.20q, not %q", data, header)
	}
	body, sum := body[:max(0, len(body)-trailerSize)], body[max(0, len(body)-trailerSize):]
	if fmt.Sprintf(trailer, sha256.Sum256(data[:len(data)-len(sum)])) != string(sum) {
		return nil, errors.New("the registry is damaged, or its end is missing: its checksum differs; use another backup")
	}
	s := New()
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("decode the registry: %w", err)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("the registry is inconsistent: %w", err)
	}
	return s, nil
}

// EncodeCommand returns a command's encoding for the log.
func EncodeCommand(c Command) ([]byte, error) {
	c.Version = Version
	data, err := json.Marshal(c)
	if err == nil && len(data) > MaxCommand {
		err = refuse(Invalid, "a command of %d bytes; at most %d are allowed", len(data), MaxCommand)
	}
	return data, err
}

// VersionError reports a command of another version, which this program cannot apply.
type VersionError int

func (e VersionError) Error() string {
	return fmt.Sprintf("a record of version %d, and this program's are of version %d", int(e), Version)
}

// DecodeCommand decodes a command of the log. The error is a VersionError or a *Refusal.
func DecodeCommand(data []byte) (c Command, err error) {
	var written struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &written); err == nil && written.Version != Version {
		return c, VersionError(written.Version)
	}
	if err := DecodeStrictly(data, &c); err != nil {
		return c, refuse(Invalid, "not a command: %v", err)
	}
	return c, nil
}

// DecodeStrictly decodes one JSON value, rejecting unknown fields and trailing data.
func DecodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data after the value")
	}
	return nil
}

// validate checks what the rules take for granted, and indexes the runs.
func (s *State) validate() error {
	if len(s.Runs) > MaxRuns || len(s.Experiments) > MaxExperiments || len(s.Clients) > MaxClients ||
		len(s.Drained) > MaxDrained || len(s.Nodes) > MaxNodes {
		return errors.New("it exceeds the limits of a registry")
	}
	known := make(map[string]bool, len(s.Experiments))
	for _, e := range s.Experiments {
		known[e.Spec.Name] = true
	}
	for i := range s.Runs {
		run := &s.Runs[i]
		if !slices.Contains(States, run.State) {
			return fmt.Errorf("run %q is %q", run.Name, run.State)
		}
		if run.ID > run.Epoch {
			return fmt.Errorf("run %q has ID %d at epoch %d", run.Name, run.ID, run.Epoch)
		}
		if (run.State == Running) != (run.Lease != nil) {
			return fmt.Errorf("run %q is %s, lease %v", run.Name, run.State, run.Lease)
		}
		if !known[run.Experiment] {
			return fmt.Errorf("run %q belongs to no experiment", run.Name)
		}
	}
	if s.index(); len(s.runs) != len(s.Runs) || len(known) != len(s.Experiments) {
		return errors.New("a name occurs twice")
	}
	return nil
}
