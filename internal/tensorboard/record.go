package tensorboard

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedChecksum returns the CRC-32C, masked because checksums of data that contain checksums are weak.
func maskedChecksum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

const (
	headerSize = 8 + 4
	footerSize = 4
)

// appendRecord appends data as one record.
func appendRecord(out, data []byte) []byte {
	start := len(out)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, maskedChecksum(out[start:]))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, maskedChecksum(data))
}

// nextRecord returns the data of the record at the start of file and the record's size in bytes, or false if there
// is no complete, undamaged one.
func nextRecord(file []byte) (data []byte, size int, ok bool) {
	if len(file) < headerSize+footerSize {
		return nil, 0, false
	}
	length := binary.LittleEndian.Uint64(file)
	if maskedChecksum(file[:8]) != binary.LittleEndian.Uint32(file[8:]) {
		return nil, 0, false
	}
	if length > uint64(len(file)-headerSize-footerSize) {
		return nil, 0, false
	}
	end := headerSize + int(length)
	data = file[headerSize:end]
	if maskedChecksum(data) != binary.LittleEndian.Uint32(file[end:]) {
		return nil, 0, false
	}
	return data, end + footerSize, true
}

// The numbers of the fields, as in event.proto and summary.proto.
const (
	eventWallTime    = 1
	eventStep        = 2
	eventFileVersion = 3
	eventSummary     = 5
	eventSessionLog  = 7

	summaryValue     = 1
	valueTag         = 1
	valueSimple      = 2
	sessionLogStatus = 1
	sessionStart     = 1
)

// appendEvent appends the fields common to all events.
func appendEvent(out []byte, at time.Time, step int64) []byte {
	out = appendDouble(out, eventWallTime, float64(at.UnixMicro())/1e6)
	if step != 0 { // the default is omitted
		out = appendVarint(out, eventStep, uint64(step))
	}
	return out
}

func versionEvent(at time.Time) []byte {
	return appendString(appendEvent(nil, at, 0), eventFileVersion, "brain.Event:2")
}

func startEvent(at time.Time, step int64) []byte {
	return appendMessage(appendEvent(nil, at, step), eventSessionLog, appendVarint(nil, sessionLogStatus, sessionStart))
}

func scalarsEvent(at time.Time, step int64, scalars []Scalar) []byte {
	var summary, value []byte
	for _, s := range scalars {
		value = appendString(value[:0], valueTag, s.Tag)
		value = protowire.AppendTag(value, valueSimple, protowire.Fixed32Type)
		value = protowire.AppendFixed32(value, math.Float32bits(float32(s.Value)))
		if s.Description != "" {
			value = appendMessage(value, valueMetadata, metadata("scalars", nil, s.Description, classScalar))
		}
		summary = appendMessage(summary, summaryValue, value)
	}
	return appendMessage(appendEvent(nil, at, step), eventSummary, summary)
}

// parseEvent returns an event's step and whether the event is the file's version, or false if the data are not an
// event.
func parseEvent(event []byte) (step int64, version, ok bool) {
	for len(event) > 0 {
		number, kind, n := protowire.ConsumeTag(event)
		if n < 0 {
			return 0, false, false
		}
		value := event[n:]
		size := protowire.ConsumeFieldValue(number, kind, value)
		if size < 0 {
			return 0, false, false
		}
		if number == eventStep && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(value)
			step = int64(v)
		}
		version = version || number == eventFileVersion
		event = value[size:]
	}
	return step, version, true
}
