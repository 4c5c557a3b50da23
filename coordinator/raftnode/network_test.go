package raftnode

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// errLost is a message, or the answer to it, that does not arrive.
var errLost = errors.New("lost")

// network carries the raft messages of a cluster in memory, and loses, delays and repeats them.
type network struct {
	closed  chan struct{}
	repeats sync.WaitGroup

	mu     sync.Mutex
	rng    *rand.Rand
	cut    map[[2]raft.ServerAddress]bool // messages that do not get from one to the other
	loss   float64                        // probability that a message is lost, and that an answer is
	repeat float64                        // that a message arrives a second time, later
	delay  time.Duration                  // the longest
	count  struct{ lost, repeated, delayed, installed int }
}

func newNetwork(rng *rand.Rand) *network {
	return &network{closed: make(chan struct{}), rng: rng, cut: map[[2]raft.ServerAddress]bool{}}
}

// close ends what is under way.
func (n *network) close() {
	close(n.closed)
	n.repeats.Wait()
}

// fate is what becomes of a message.
type fate struct {
	lost, answerLost, repeated bool
	delay, repeatDelay         time.Duration
}

func (n *network) fate(from, to raft.ServerAddress) fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := fate{lost: n.cut[[2]raft.ServerAddress{from, to}] || n.rng.Float64() < n.loss}
	f.answerLost = n.cut[[2]raft.ServerAddress{to, from}] || n.rng.Float64() < n.loss
	f.repeated = n.rng.Float64() < n.repeat
	if n.delay > 0 && n.rng.IntN(4) == 0 {
		f.delay, f.repeatDelay = time.Duration(n.rng.Int64N(int64(n.delay))),
			time.Duration(n.rng.Int64N(int64(10*n.delay)))
		n.count.delayed++
	}
	if f.lost || f.answerLost {
		n.count.lost++
	}
	if f.repeated {
		n.count.repeated++
	}
	return f
}

// wait waits for d, or until the end of the test.
func (n *network) wait(d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.closed:
	}
}

// carry sends a message; again, if not nil, sends it once more with the answer thrown away.
func (n *network) carry(from, to raft.ServerAddress, send, again func() error) error {
	f := n.fate(from, to)
	n.wait(f.delay)
	if f.lost {
		return errLost
	}
	if f.repeated && again != nil {
		n.repeats.Go(func() {
			n.wait(f.repeatDelay)
			_ = again() // whatever comes of it
		})
	}
	if err := send(); err != nil {
		return err
	}
	if f.answerLost {
		return errLost
	}
	return nil
}

// set changes how bad the network is.
func (n *network) set(loss, repeat float64, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.repeat, n.delay = loss, repeat, delay
}

// divide cuts the addresses of one side off from all others; with oneWay they can still be heard. nil heals.
func (n *network) divide(all, side []raft.ServerAddress, oneWay bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	inside := map[raft.ServerAddress]bool{}
	for _, a := range side {
		inside[a] = true
	}
	for _, a := range all {
		for _, b := range all {
			if inside[a] != inside[b] && (!oneWay || inside[b]) {
				n.cut[[2]raft.ServerAddress{a, b}] = true
			}
		}
	}
}

// wire is a node's end of the network.
type wire struct {
	*raft.InmemTransport
	network *network
}

func (w wire) carry(to raft.ServerAddress, send, again func() error) error {
	return w.network.carry(w.LocalAddr(), to, send, again)
}

// AppendEntriesPipeline is not supported: every message is sent by itself.
func (w wire) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries copies the request, which raft reuses while a late message still has it.
func (w wire) AppendEntries(
	id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse,
) error {
	sent := *q
	send := func(a *raft.AppendEntriesResponse) error { return w.InmemTransport.AppendEntries(id, to, &sent, a) }
	return w.carry(to, func() error { return send(a) }, func() error { return send(new(raft.AppendEntriesResponse)) })
}

func (w wire) RequestVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestVoteRequest,
	a *raft.RequestVoteResponse) error {
	send := func() error { return w.InmemTransport.RequestVote(id, to, q, a) }
	return w.carry(to, send, func() error {
		return w.InmemTransport.RequestVote(id, to, q,
			new(raft.RequestVoteResponse))
	})
}

func (w wire) RequestPreVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestPreVoteRequest,
	a *raft.RequestPreVoteResponse) error {
	send := func() error { return w.InmemTransport.RequestPreVote(id, to, q, a) }
	return w.carry(to, send, func() error {
		return w.InmemTransport.RequestPreVote(id, to, q,
			new(raft.RequestPreVoteResponse))
	})
}

func (w wire) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, q *raft.InstallSnapshotRequest,
	a *raft.InstallSnapshotResponse, data io.Reader) error {
	send := func() error { return w.InmemTransport.InstallSnapshot(id, to, q, a, data) }
	err := w.carry(to, send, nil)
	if err == nil && a.Success {
		w.network.mu.Lock()
		w.network.count.installed++
		w.network.mu.Unlock()
	}
	return err
}

func (w wire) TimeoutNow(id raft.ServerID, to raft.ServerAddress, q *raft.TimeoutNowRequest,
	a *raft.TimeoutNowResponse) error {
	send := func() error { return w.InmemTransport.TimeoutNow(id, to, q, a) }
	return w.carry(to, send, func() error {
		return w.InmemTransport.TimeoutNow(id, to, q,
			new(raft.TimeoutNowResponse))
	})
}
