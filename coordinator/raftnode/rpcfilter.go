package raftnode

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"
)

// transport is what raft makes use of in one.
type transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// rpcFilter hands a node's messages to raft one after the other, and keeps from it what it does not get over:
//
//   - A snapshot that is behind what the node has applied already is answered here. Raft would install it, and go back to
//     where its log no longer reaches: it panics with "log not found". Such a one was under way while the leader
//     gave up waiting and sent log entries instead.
//   - A leader that begins where the node's log has nothing, but its snapshot has it, is taken to have begun after all that is
//     applied: as that was committed, it has the same. Raft would look in the log for the entry before, and refuse until it got
//     that snapshot again, for ever.
//   - Before a snapshot goes a heartbeat of the same leader. A candidate that is sent a snapshot would remain one and yet
//     know that leader; if the leader was lost just then, it would refuse its vote to all others for ever.
type rpcFilter struct {
	transport
	logs     raft.LogStore
	messages chan raft.RPC
	done     chan struct{} // closed at the end
	ended    chan struct{} // closed once nothing is under way any more
}

func newRPCFilter(t transport, logs raft.LogStore) *rpcFilter {
	return &rpcFilter{transport: t, logs: logs, messages: make(chan raft.RPC), done: make(chan struct{}), ended: make(chan struct{})}
}

// Consumer is where raft gets its messages from.
func (f *rpcFilter) Consumer() <-chan raft.RPC { return f.messages }

// run hands messages on until close. applied is the last log entry that the node has applied.
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
					_, err := io.Copy(io.Discard, message.Reader) // what follows on the connection is the next message
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

// heartbeat is one of the leader that sends a snapshot. Nobody waits for its answer.
func heartbeat(s *raft.InstallSnapshotRequest) raft.RPC {
	return raft.RPC{
		Command:  &raft.AppendEntriesRequest{RPCHeader: s.RPCHeader, Term: s.Term, Leader: s.Leader},
		RespChan: make(chan raft.RPCResponse, 1),
	}
}

// after is a request without the entries that are applied, and, if it begins no later, without a look at what is before.
func after(a *raft.AppendEntriesRequest, applied uint64) *raft.AppendEntriesRequest {
	if a.PrevLogEntry > applied {
		return a
	}
	rest := *a // the sender's own, perhaps
	rest.PrevLogEntry, rest.PrevLogTerm = 0, 0
	for len(rest.Entries) > 0 && rest.Entries[0].Index <= applied {
		rest.Entries = rest.Entries[1:]
	}
	return &rest
}

// hand hands a message on and waits for the answer, so that the next one finds the node as this one leaves it.
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

// close ends run.
func (f *rpcFilter) close() {
	close(f.done)
	<-f.ended
}
