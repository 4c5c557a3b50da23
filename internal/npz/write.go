package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// WriteFile writes the arrays, compressed, to path, atomically.
func WriteFile(path string, arrays Arrays) error {
	var file bytes.Buffer
	if err := Write(&file, arrays); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := atomicfile.Write(path, file.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Write writes the arrays, compressed, in the order of their names: the same arrays give the same bytes.
func Write(w io.Writer, arrays Arrays) error {
	archive := zip.NewWriter(w)
	for _, name := range arrays.Names() {
		entry, err := archive.Create(name + ".npy")
		if err != nil {
			return err
		}
		if err := encode(entry, arrays[name]); err != nil {
			return fmt.Errorf("array %q: %w", name, err)
		}
	}
	return archive.Close()
}

// encode writes one array in version 1.0 of the .npy format.
func encode(w io.Writer, a Array) error {
	var shape strings.Builder
	for _, d := range a.Shape {
		fmt.Fprintf(&shape, "%d,", d) // the comma after the last one is Python's: a tuple of one is (3,)
	}
	descr, data := "<f8", any(a.Floats)
	switch a.kind() {
	case "int64":
		descr, data = "<i8", a.Ints
	case "bool":
		descr, data = "|b1", a.Bools
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape.String())
	// The data starts at a multiple of 64 bytes, after a newline.
	const prefix = len("\x93NUMPY\x01\x00") + 2
	padding := 63 - (prefix+len(text))%64
	text += strings.Repeat(" ", padding) + "\n"
	if _, err := fmt.Fprintf(w, "\x93NUMPY\x01\x00%s%s", binary.LittleEndian.AppendUint16(nil, uint16(len(text))), text); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
