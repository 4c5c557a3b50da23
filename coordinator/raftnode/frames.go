package raftnode

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"
)

// seal is the head of a file. The second one is for when the first is damaged.
type seal struct {
	Node   string
	End    int64             // of the frames that have been acknowledged
	Values map[string][]byte // of the stable store
}

// frame is one change of the snapshot or the log: exactly one of its parts is set.
type frame struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // msgpack reads it
	Snapshot *raft.SnapshotMeta
	State    []byte // of the snapshot
	Entry    *raft.Log
	From, To uint64 // the entries to delete
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add returns the checksum of frames with another one.
func add(sum uint32, size, content []byte) uint32 {
	return crc32.Update(crc32.Update(sum, castagnoli, size), castagnoli, content)
}

// encodeFrames returns frames after others with a checksum, and the checksum of all.
func encodeFrames(sum uint32, frames ...*frame) (data []byte, all uint32, err error) {
	for _, f := range frames {
		content, err := msgpack.Marshal(f)
		if err != nil {
			return nil, 0, err
		}
		size := binary.BigEndian.AppendUint64(nil, uint64(len(content)))
		sum = add(sum, size, content)
		data = append(binary.BigEndian.AppendUint32(append(data, size...), sum), content...)
	}
	return data, sum, nil
}

// encode returns a seal as it is written.
func (s seal) encode() ([]byte, error) {
	content, err := msgpack.Marshal(&s)
	if err == nil && len(content) > sealSpace-4 {
		err = fmt.Errorf("a seal of %d bytes", len(content))
	}
	content = append(content, make([]byte, max(0, sealSpace-4-len(content)))...)
	return binary.BigEndian.AppendUint32(content, crc32.Checksum(content, castagnoli)), err
}

// decode reads a seal and reports whether it is valid.
func (s *seal) decode(data []byte) bool {
	if len(data) != sealSpace {
		return false
	}
	content, sum := data[:sealSpace-4], binary.BigEndian.Uint32(data[sealSpace-4:])
	return crc32.Checksum(content, castagnoli) == sum && msgpack.Unmarshal(content, s) == nil
}
