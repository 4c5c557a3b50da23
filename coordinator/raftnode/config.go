package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// Config holds a node's settings.
type Config struct {
	// ID is the node's name, unique in its cluster.
	ID string
	// DataDir is the directory of its log and snapshots, created if need be.
	DataDir string
	// Listener takes the other nodes' connections. The node closes it.
	Listener net.Listener
	// Advertise is the address that the other nodes reach the listener at; "" is the
	// listener's own.
	Advertise string
	// Dial connects to another node; nil is plain TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Peers are the nodes of a new cluster, this one included. A node with an empty directory asks them whether there is a
	// cluster already; one that has been in a cluster ignores them. Without them a new node waits until it is joined to one.
	Peers []Peer
	// Forget takes an earlier node of this name out of the cluster, whose nodes' URLs it is given (none without Peers), and
	// returns the leader's term by then; see [Node.Forget]. It tries until its context is done. It is called for an empty
	// directory; nil is possible where there is no cluster, or this name was never in it.
	Forget func(ctx context.Context, urls []string) (term uint64, err error)
	// Restore is a backup that a new cluster begins with: of one node, which others join later. nil is none.
	Restore *registry.State
	// Log receives what raft has to say; nil is slog.Default.
	Log *slog.Logger
	// Now is the clock that stamps commands; nil is time.Now.
	Now func() time.Time
	// Timing is zero for what suits a local network.
	Timing Timing
}

// Peer is a node's name and the address of its raft listener.
type Peer struct{ ID, Address string }

// Timing says how soon a silent leader is replaced, and when the log is cut.
type Timing struct {
	// Heartbeat is how long a follower waits to hear from the leader; it then waits up to as
	// long again before it stands for election.
	Heartbeat time.Duration
	// SnapshotEvery is how many commands there are between two snapshots.
	SnapshotEvery uint64
	// SnapshotInterval is how often that is looked at.
	SnapshotInterval time.Duration
	// Trailing is how many commands stay in the log for followers that are behind.
	Trailing uint64
}

func (t Timing) orDefault() Timing {
	d := Timing{Heartbeat: 500 * time.Millisecond, SnapshotEvery: 8192, SnapshotInterval: 30 * time.Second, Trailing: 4096}
	if t.Heartbeat != 0 {
		d.Heartbeat = t.Heartbeat
	}
	if t.SnapshotEvery != 0 {
		d.SnapshotEvery, d.Trailing = t.SnapshotEvery, t.Trailing
	}
	if t.SnapshotInterval != 0 {
		d.SnapshotInterval = t.SnapshotInterval
	}
	return d
}

// ParsePeers reads "n1=host:port,n2=host:port".
func ParsePeers(text string) ([]Peer, error) {
	if text == "" {
		return nil, nil
	}
	var peers []Peer
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		id, address, ok := strings.Cut(strings.TrimSpace(part), "=")
		if _, _, err := net.SplitHostPort(address); !ok || id == "" || err != nil {
			return nil, fmt.Errorf("%q: peers are given as n1=host:port,n2=host:port", part)
		}
		if seen[id] || seen[address] {
			return nil, fmt.Errorf("%q: that name or address is there twice", part)
		}
		seen[id], seen[address] = true, true
		peers = append(peers, Peer{id, address})
	}
	if len(peers)%2 == 0 {
		return nil, fmt.Errorf("%d peers: take 1, 3 or 5, for an even number survives no more losses than one less", len(peers))
	}
	return peers, nil
}

func (c *Config) check() error {
	switch {
	case c.ID == "" || len(c.ID) > 64 || strings.ContainsAny(c.ID, "=,/ \t\n"):
		return fmt.Errorf("node %q: a node's name is 1 to 64 characters without = , / and spaces", c.ID)
	case c.DataDir == "":
		return errors.New("a node needs a data directory")
	case c.Listener == nil:
		panic("raftnode: no listener")
	}
	if c.Restore != nil && len(c.Peers) != 1 {
		return errors.New("a backup is restored to a new node that is alone; others join it afterwards")
	}
	if len(c.Peers) == 0 {
		return nil
	}
	for _, p := range c.Peers {
		if p.ID == c.ID {
			return nil
		}
	}
	return fmt.Errorf("node %q is not among the peers: give its name and address there too", c.ID)
}
