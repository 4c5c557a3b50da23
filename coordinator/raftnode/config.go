package raftnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// Config holds a node's settings.
type Config struct {
	// ID is the node's name, unique in its cluster.
	ID string
	// DataDir is the directory of its log and snapshots, created if necessary.
	DataDir string
	// Listener accepts connections from the other nodes. The node closes it.
	Listener net.Listener
	// Advertise is the address at which the other nodes reach the listener; "" means the
	// listener's own.
	Advertise string
	// Dial connects to another node; nil means plain TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Peers are the nodes of a new cluster, this one included. A node with an empty directory asks them whether a
	// cluster exists; the first by name forms one if all are empty. Without Peers a new node waits to be added to a
	// cluster.
	Peers []Peer
	// Forget removes an earlier node of this name from the cluster with nodes at the given URLs (none without Peers),
	// and returns the leader's term at that time; see [Node.Forget]. It retries until its context is done. It is
	// called if the directory is empty, and may be nil if there is no cluster or this name was never in it.
	Forget func(ctx context.Context, urls []string) (term uint64, err error)
	// Restore is a backup to start a new cluster of one node from, which others join later; nil means none.
	Restore *registry.State
	// Log receives raft's messages; nil means slog.Default.
	Log *slog.Logger
	// Now is the machine's clock; nil means time.Now.
	Now func() time.Time
	// Timing sets raft's timing; the zero value suits a local network.
	Timing Timing
}

// Peer is a node's name and the address of its raft listener.
type Peer struct{ ID, Address string }

// Timing says how soon a silent leader is replaced, and when the log is truncated.
type Timing struct {
	// Heartbeat is how long a follower waits to hear from the leader; it then waits up to
	// that long again before it stands for election.
	Heartbeat time.Duration
	// SnapshotEvery is the number of commands between two snapshots.
	SnapshotEvery uint64
	// SnapshotInterval is how often that number is checked.
	SnapshotInterval time.Duration
	// Trailing is the number of commands kept in the log for followers that lag.
	Trailing uint64
}

func (t Timing) orDefault() Timing {
	if t.SnapshotEvery == 0 {
		t.SnapshotEvery, t.Trailing = 8192, 4096
	}
	t.Heartbeat = cmp.Or(t.Heartbeat, 500*time.Millisecond)
	t.SnapshotInterval = cmp.Or(t.SnapshotInterval, 30*time.Second)
	return t
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
		host, _, err := net.SplitHostPort(address)
		if !ok || id == "" || err != nil {
			return nil, fmt.Errorf("%q: peers are given as n1=host:port,n2=host:port", part)
		}
		if err := CheckHost(host); err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		if seen[id] || seen[address] {
			return nil, fmt.Errorf("%q: that name or address is given twice", part)
		}
		seen[id], seen[address] = true, true
		peers = append(peers, Peer{id, address})
	}
	if len(peers)%2 == 0 {
		return nil, fmt.Errorf("%d peers: use 1, 3 or 5; one more than these survives no more losses", len(peers))
	}
	return peers, nil
}

// CheckHost returns an error for a host by which others do not reach this machine, such as 0.0.0.0.
func CheckHost(host string) error {
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%q means all addresses of this machine: other machines need one of them, or a name", host)
	}
	return nil
}

func (c *Config) check() error {
	switch {
	case c.ID == "" || len(c.ID) > 64 || strings.ContainsAny(c.ID, "=,/ \t\n"):
		return fmt.Errorf("node %q: a node's name has 1 to 64 characters, without = , / and spaces", c.ID)
	case c.DataDir == "":
		return errors.New("a node needs a data directory")
	case c.Listener == nil:
		panic("raftnode: no listener")
	}
	if c.Restore != nil && len(c.Peers) != 1 {
		return errors.New("a backup can only be restored to a new single node; others join it afterwards")
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
