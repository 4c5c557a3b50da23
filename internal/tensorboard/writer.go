// Package tensorboard writes event files for TensorBoard.
//
// An event file is a sequence of records, each
//
//	8 bytes  n, the length of the data, little-endian
//	4 bytes  masked CRC-32C of those 8 bytes
//	n bytes  the data: an Event in the protocol buffers' encoding
//	4 bytes  masked CRC-32C of the data
//
// where the mask rotates the checksum right by 15 bits and adds 0xa282ead8.
package tensorboard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const prefix = "events.out.tfevents."

// Pattern matches the names of event files.
const Pattern = prefix + "*"

// A Scalar is one point of the curve named Tag. TensorBoard groups curves by the part before the first slash.
type Scalar struct {
	Tag         string
	Value       float64 // kept in single precision
	Description string  // of the curve, written once per file
}

// A Writer appends to one event file. It is used by one goroutine at a time.
type Writer struct {
	file      *os.File
	described map[string]bool // by tag
}

// Create starts the event file of a run in place of any earlier ones in the directory. A TensorBoard that has read
// these drops their events, because the new file has a session log START at step 0.
func Create(directory string) (*Writer, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("look for event files: %w", err)
	}
	now := time.Now()
	stamp := now.Unix()
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		var earlier int64
		if n, _ := fmt.Sscanf(entry.Name(), prefix+"%10d.", &earlier); n == 1 {
			stamp = max(stamp, earlier+1) // TensorBoard reads files in the order of their names
		}
		if err := os.Remove(filepath.Join(directory, entry.Name())); err != nil {
			return nil, fmt.Errorf("remove an event file: %w", err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	path := filepath.Join(directory, fmt.Sprintf("%s%010d.%s", prefix, stamp, host))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create an event file: %w", err)
	}
	w := &Writer{file: file, described: map[string]bool{}}
	if err := w.append(versionEvent(now), startEvent(now)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

// Describe writes the session, before any scalars.
func (w *Writer) Describe(s Session) error {
	now := time.Now()
	return w.append(textEvent(now, "settings", s.Settings), experimentEvent(now, s.Hyperparameters, s.Metrics),
		sessionEvent(now, s.Hyperparameters))
}

// Write appends the scalars of one step, at the time from which TensorBoard draws its relative axis. A process killed
// there leaves at most half a record, which readers skip.
func (w *Writer) Write(at time.Time, step int64, scalars []Scalar) error {
	scalars = slices.Clone(scalars)
	for i := range scalars {
		if s := &scalars[i]; w.described[s.Tag] {
			s.Description = ""
		} else if s.Description != "" {
			w.described[s.Tag] = true
		}
	}
	return w.append(scalarsEvent(at, step, scalars))
}

// append writes events in a single write.
func (w *Writer) append(events ...message) error {
	var records []byte
	for _, event := range events {
		records = appendRecord(records, event)
	}
	if _, err := w.file.Write(records); err != nil {
		return fmt.Errorf("write events for TensorBoard: %w", err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// appendRecord appends data as one record.
func appendRecord(out, data []byte) []byte {
	start := len(out)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, maskedChecksum(out[start:]))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, maskedChecksum(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedChecksum returns the CRC-32C, masked because checksums of data that contain checksums are weak.
func maskedChecksum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
