package raftnode

import (
	"errors"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// ErrDisk reports that this node cannot write its log, as when its disk is full, and that no other leads.
var ErrDisk = errors.New("this node cannot write its records")

// diskLog is a log store that remembers whether the last write failed.
type diskLog struct {
	raft.LogStore
	failure atomic.Pointer[error]
}

// StoreLog implements [raft.LogStore].
func (d *diskLog) StoreLog(log *raft.Log) error { return d.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements [raft.LogStore].
func (d *diskLog) StoreLogs(logs []*raft.Log) error {
	err := d.LogStore.StoreLogs(logs)
	d.failure.Store(&err)
	return err
}

// err returns the error of the last write.
func (d *diskLog) err() error {
	if err := d.failure.Load(); err != nil {
		return *err
	}
	return nil
}
