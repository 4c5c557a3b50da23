package raftnode

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"
)

// transport is the set of interfaces that raft uses of a transport.
type transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// rpcFilter hands a node's messages to raft one at a time, and intercepts those that raft cannot handle:
//
//   - A snapshot older than the node's state is answered here. Raft would install it and return to a point that its log
//     no longer contains, where it panics with "log not found". Such a snapshot was in transit when the leader gave up
//     waiting and sent log entries instead.
//   - If a leader's entries begin at a point that the node has only in its snapshot, they are cut to begin after the
//     last one applied: it was committed, so the leader has the same. Raft would look in the log for the preceding
//     entry, and refuse until it received the snapshot again, forever.
//   - A snapshot is preceded by a heartbeat of the same leader. A candidate that receives a snapshot would remain a
//     candidate and yet know that leader; if the leader was lost just then, it would refuse its vote to all others
//     forever.
type rpcFilter struct {
	transport
	logs     raft.LogStore
	messages chan raft.RPC
	done     chan struct{} // closed by close
	ended    chan struct{} // closed once run has returned
}

func newRPCFilter(t transport, logs raft.LogStore) *rpcFilter {
	f := &rpcFilter{transport: t, logs: logs}
	f.messages, f.done, f.ended = make(chan raft.RPC), make(chan struct{}), make(chan struct{})
	return f
}

// Consumer implements [raft.Transport].
func (f *rpcFilter) Consumer() <-chan raft.RPC { return f.messages }

// run forwards messages until close. applied returns the last log entry that the node has applied.
func (f *rpcFilter) run(applied func() uint64) {
	defer close(f.ended)
	for {
		select {
		case <-f.done:
			return
		case message := <-f.transport.Consumer():
			switch command := message.Command.(type) {
			case *raft.InstallSnapshotRequest:
				if command.LastLogIndex <= applied() {
					_, err := io.Copy(io.Discard, message.Reader) // the next message on the connection follows it
					message.Respond(&raft.InstallSnapshotResponse{Term: command.Term, Success: err == nil}, err)
					continue
				}
				f.hand(heartbeat(command))
			case *raft.AppendEntriesRequest:
				var before raft.Log
				if errors.Is(f.logs.GetLog(command.PrevLogEntry, &before), raft.ErrLogNotFound) {
					message.Command = after(command, applied())
				}
			}
			f.hand(message)
		}
	}
}

// heartbeat returns a heartbeat of the leader that sends a snapshot. Nobody waits for its answer.
func heartbeat(s *raft.InstallSnapshotRequest) raft.RPC {
	return raft.RPC{
		Command:  &raft.AppendEntriesRequest{RPCHeader: s.RPCHeader, Term: s.Term, Leader: s.Leader},
		RespChan: make(chan raft.RPCResponse, 1),
	}
}

// after returns a request without the entries already applied and, if it begins among them, without the check of the
// preceding entry.
func after(a *raft.AppendEntriesRequest, applied uint64) *raft.AppendEntriesRequest {
	if a.PrevLogEntry > applied {
		return a
	}
	rest := *a // the original may belong to the sender
	rest.PrevLogEntry, rest.PrevLogTerm = 0, 0
	for len(rest.Entries) > 0 && rest.Entries[0].Index <= applied {
		rest.Entries = rest.Entries[1:]
	}
	return &rest
}

// hand forwards a message and waits for the answer, so that the next message finds the resulting state.
func (f *rpcFilter) hand(message raft.RPC) {
	answer := make(chan raft.RPCResponse, 1)
	select {
	case f.messages <- raft.RPC{Command: message.Command, Reader: message.Reader, RespChan: answer}:
	case <-f.done:
		message.Respond(nil, raft.ErrRaftShutdown)
		return
	}
	select {
	case a := <-answer:
		message.Respond(a.Response, a.Error)
	case <-f.done:
		message.Respond(nil, raft.ErrRaftShutdown)
	}
}

// close stops run.
func (f *rpcFilter) close() {
	close(f.done)
	<-f.ended
}
