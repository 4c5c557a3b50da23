package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/pause"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = 30 * time.Second

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// timing is that of a cluster in memory: elections within some 50 ms, a snapshot every 25 commands.
var timing = Timing{Heartbeat: 50 * time.Millisecond, SnapshotEvery: 25, SnapshotInterval: 20 * time.Millisecond,
	Trailing: 5}

// cluster is one in memory.
type cluster struct {
	t        testing.TB
	network  *network
	numbers  atomic.Uint64
	restarts int          // by misfortune
	lost     int          // disks, by misfortune
	clock    atomic.Int64 // hours: every command has a time of its own, and every lease has expired by the next

	mu    sync.Mutex
	other string // a node whose program is of another version
	nodes map[string]*Node
	wires map[string]*raft.InmemTransport
	disks map[string]*records // what a node has written, and keeps over restarts
}

// newCluster starts n nodes, n1, n2, ...
func newCluster(t testing.TB, n int, rng *rand.Rand) *cluster {
	t.Helper()
	c := &cluster{
		t: t, network: newNetwork(rng), nodes: map[string]*Node{}, wires: map[string]*raft.InmemTransport{},
		disks: map[string]*records{},
	}
	t.Cleanup(c.close)
	for i := range n {
		if i == 0 {
			c.start("n1", []Peer{{"n1", "n1"}})
		} else {
			c.join(fmt.Sprint("n", i+1))
		}
	}
	return c
}

// join starts a node and adds it to the others.
func (c *cluster) join(id string) {
	c.t.Helper()
	c.start(id, nil)
	if err := c.probe(deadline(c.t), func(n *Node) error { return n.Join(deadline(c.t), Peer{id, id}) }); err != nil {
		c.t.Fatal(err)
	}
}

// start starts a node with the contents of its disk. A node without peers and disk waits to be joined, and has lost
// its votes in the terms up to those in spent, if any.
func (c *cluster) start(id string, peers []Peer, spent ...uint64) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	_, transport := raft.NewInmemTransportWithTimeout(raft.ServerAddress(id), 100*time.Millisecond)
	for other, w := range c.wires {
		transport.Connect(raft.ServerAddress(other), w)
		w.Connect(raft.ServerAddress(id), transport)
	}
	d, ok := c.disks[id]
	if !ok {
		d = newRecords(id)
	}
	for _, term := range spent {
		if err := spendVotes(d, term); err != nil {
			c.t.Fatal(err)
		}
	}
	config := Config{ID: id, Peers: peers, Log: slog.New(slog.DiscardHandler), Timing: timing, Now: c.now}
	node, err := start(config, parts{d, wire{transport, c.network}, c.ask, nil}, !ok && len(peers) > 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[id], c.wires[id], c.disks[id] = node, transport, d
}

// silent asks a node in vain.
func silent(context.Context, Peer) (*probeReply, error) { return nil, errors.New("nobody answers") }

// ask asks a node for its state; one that is not running is silent, and one whose disk was lost has started without it.
func (c *cluster) ask(_ context.Context, p Peer) (*probeReply, error) {
	n := c.node(p.Address)
	if n == nil {
		return silent(context.Background(), p)
	}
	reply := &probeReply{Node: p.ID, Version: registry.Version}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.other == p.ID {
		reply.Version++
	}
	n.describe(reply)
	return reply, nil
}

func (c *cluster) now() time.Time {
	return time.Unix(0, 0).Add(time.Duration(c.clock.Add(1)) * time.Hour)
}

// stop ends a node at once; its disk stays.
func (c *cluster) stop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halt(id)
}

func (c *cluster) halt(id string) {
	node := c.nodes[id]
	if node == nil {
		return
	}
	for other, w := range c.wires {
		if other != id {
			w.Disconnect(raft.ServerAddress(id))
		}
	}
	c.wires[id].DisconnectAll()
	if err := node.shutdown(); err != nil {
		c.t.Error(err)
	}
	delete(c.nodes, id)
	delete(c.wires, id)
}

func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.nodes {
		c.halt(id)
	}
	c.network.close()
}

// node returns a running node, nil if it is not.
func (c *cluster) node(id string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
}

// running returns the names of the nodes at work, in order.
func (c *cluster) running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id := range c.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// leader returns the node that leads, as most think; nil if there is none.
func (c *cluster) leader() *Node {
	for _, id := range c.running() {
		if n := c.node(id); n != nil && n.raft.State() == raft.Leader {
			return n
		}
	}
	return nil
}

// propose has a command carried out by whichever node leads, however often it takes.
func (c *cluster) propose(ctx context.Context, command registry.Command) (registry.Response, error) {
	var response registry.Response
	err := c.probe(ctx, func(n *Node) (err error) {
		response, err = n.Propose(ctx, command)
		return err
	})
	return response, err
}

// probe asks one node after the other until one has an answer or ctx is done.
func (c *cluster) probe(ctx context.Context, question func(*Node) error) error {
	for {
		for _, id := range c.running() {
			n := c.node(id)
			if n == nil || n.raft.State() != raft.Leader {
				continue
			}
			if err := question(n); err == nil || ctx.Err() != nil {
				return err
			}
		}
		if !pause.For(ctx, 2*time.Millisecond) { // as a client pauses that has asked all in vain
			return fmt.Errorf("%w; %s", ctx.Err(), c)
		}
	}
}

// String describes the state of the nodes.
func (c *cluster) String() string {
	text := ""
	for _, id := range c.running() {
		n := c.node(id)
		text += fmt.Sprintf("%s: %s, %+v, of %+v\n", id, n.raft.State(), n.Status(), n.Members())
	}
	return text
}

// mustPropose is propose for commands that must be accepted.
func (c *cluster) mustPropose(command registry.Command) registry.Response {
	c.t.Helper()
	command.Request = registry.Request{Client: "test", Number: c.numbers.Add(1)}
	r, err := c.propose(deadline(c.t), command)
	if err != nil || r.Refusal != nil {
		c.t.Fatalf("%v, %v", r.Refusal, err)
	}
	return r
}

// submit queues an experiment of n runs, NAME/t/a-e-s1 and so on.
func submit(name string, n int) registry.Command {
	spec := registry.Spec{Name: name, Tasks: []string{"t"}, Algorithms: []string{"a"}, Estimators: []string{"e"}}
	for i := range n {
		spec.Seeds = append(spec.Seeds, uint64(i+1))
	}
	return registry.Command{Submit: &registry.Submit{Spec: spec}}
}

// requireAgreement waits until all members have applied all commands, and fails unless they then hold the same.
func (c *cluster) requireAgreement() {
	c.t.Helper()
	ctx := deadline(c.t)
	c.mustPropose(submit("last", 1))
	var members []registry.Member
	var last uint64 // which may be a repetition of that command
	var want, from string
	if err := c.probe(ctx, func(n *Node) error {
		members, from = n.Members(), n.ID()
		return n.Read(ctx, func(s *registry.State) { last, want = s.Index, encode(c.t, s) })
	}); err != nil {
		c.t.Fatal(err)
	}
	for _, m := range members {
		n := c.node(m.ID)
		for {
			var index uint64
			var text string
			n.View(func(s *registry.State) {
				if index = s.Index; index >= last {
					text = encode(c.t, s)
				}
			})
			if index >= last {
				if text != want {
					c.t.Fatalf("%s holds\n%s\nand %s\n%s", from, want, m.ID, text)
				}
				break
			}
			if !pause.For(ctx, time.Millisecond) { // the nodes tell of changes of runs alone
				c.t.Fatalf("%s does not catch up\n%s", m.ID, c)
			}
		}
	}
}

func encode(t testing.TB, s *registry.State) string {
	var out writer
	if err := s.Encode(&out); err != nil {
		t.Fatal(err)
	}
	return string(out)
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
