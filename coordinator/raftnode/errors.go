package raftnode

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// ErrUnavailable reports a request that could not be decided: there is no leader, or it was
// lost meanwhile. Whether a command was executed is unknown.
var ErrUnavailable = errors.New("the coordinator is between two leaders, or without a majority of its nodes")

// ErrDisk reports that this node cannot write its records, as when its disk is full, and that no other leads.
var ErrDisk = errors.New("this node cannot write its records")

// ErrUnsafe reports a change of the cluster's nodes that could leave it without a majority. Nothing was changed.
var ErrUnsafe = errors.New("the coordinator's nodes stay as they are")

// NotLeaderError reports that another node must be asked.
type NotLeaderError struct {
	// Leader is the node to ask, as far as known; ID or URL may be "".
	Leader registry.Node
}

func (e *NotLeaderError) Error() string {
	switch {
	case e.Leader.ID == "":
		return "this node does not lead, and knows no leader"
	case e.Leader.URL == "":
		return fmt.Sprintf("this node does not lead: %s does, which has not announced its URL yet", e.Leader.ID)
	}
	return fmt.Sprintf("this node does not lead: ask %s at %s", e.Leader.ID, e.Leader.URL)
}

func (n *Node) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		leader := n.Leader()
		if leader.ID == n.id { // it has just begun, or is about to cease, to lead
			leader = registry.Node{}
		}
		if failed := n.records.err(); failed != nil && leader.ID == "" {
			return fmt.Errorf("%w: %w", ErrDisk, failed)
		}
		return &NotLeaderError{leader}
	}
	return fmt.Errorf("%w (%w)", ErrUnavailable, err)
}
