package raftnode

import (
	"io"

	"github.com/hashicorp/raft"
)

// transport is what raft makes use of in one.
type transport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// guard hands a node's messages to raft one after the other, but for snapshots that are behind what the node has applied
// already: those it answers itself. Raft would install them, and go back to where its log no longer reaches: it panics
// with "log not found". Such a snapshot is one that was under way while the leader gave up waiting and sent log entries instead.
type guard struct {
	transport
	messages chan raft.RPC
	done     chan struct{} // closed at the end
	ended    chan struct{} // closed once nothing is under way any more
}

func newGuard(t transport) *guard {
	return &guard{transport: t, messages: make(chan raft.RPC), done: make(chan struct{}), ended: make(chan struct{})}
}

// Consumer is where raft gets its messages from.
func (g *guard) Consumer() <-chan raft.RPC { return g.messages }

// run hands messages on until close. applied is the last log entry that the node has applied.
func (g *guard) run(applied func() uint64) {
	defer close(g.ended)
	for {
		select {
		case <-g.done:
			return
		case message := <-g.transport.Consumer():
			snapshot, ok := message.Command.(*raft.InstallSnapshotRequest)
			if ok && snapshot.LastLogIndex <= applied() {
				_, err := io.Copy(io.Discard, message.Reader) // what follows on the connection is the next message
				message.Respond(&raft.InstallSnapshotResponse{Term: snapshot.Term, Success: err == nil}, err)
				continue
			}
			g.hand(message)
		}
	}
}

// hand hands a message on and waits for the answer, so that the next one finds the node as this one leaves it.
func (g *guard) hand(message raft.RPC) {
	answer := make(chan raft.RPCResponse, 1)
	select {
	case g.messages <- raft.RPC{Command: message.Command, Reader: message.Reader, RespChan: answer}:
	case <-g.done:
		message.Respond(nil, raft.ErrRaftShutdown)
		return
	}
	select {
	case a := <-answer:
		message.Respond(a.Response, a.Error)
	case <-g.done:
		message.Respond(nil, raft.ErrRaftShutdown)
	}
}

// close ends run.
func (g *guard) close() {
	close(g.done)
	<-g.ended
}
