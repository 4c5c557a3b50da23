package raftnode

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/pause"
)

// bootstrap brings a node without records into raft: the first of the peers forms a cluster of itself, and each other
// node enters an existing cluster as one that has never voted. doc.go says why this is safe.
type bootstrap struct {
	Config
	records *records
	lost    bool // it had records, which are gone
	stream  *stream
	process string // random

	mu     sync.Mutex
	member bool
	node   *Node // nil before raft runs
}

const (
	probePause = 200 * time.Millisecond
	// forgetTimeout is how long a cluster may take to remove this node's former self before the others are asked again.
	forgetTimeout = 4 * time.Second
	// remindAfter is how often a node repeats what it waits for while that does not change.
	remindAfter = time.Minute
)

// newBootstrap checks the settings and reads the records. Other nodes can ask from then on.
func newBootstrap(c Config) (*bootstrap, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	kept, lost, err := openRecords(c.DataDir, c.ID)
	if err != nil {
		return nil, err
	}
	b := &bootstrap{Config: c, process: rand.Text(), records: kept, lost: lost, member: kept.any()}
	b.stream = newStream(&c, b.state)
	return b, nil
}

// run returns once raft may start, and reports whether the node is to form a cluster.
func (b *bootstrap) run(ctx context.Context) (forms bool, err error) {
	if b.member {
		return false, nil
	}
	defer b.started()
	var term uint64
	switch {
	case b.lost && (b.Forget == nil || b.Restore != nil):
		return false, fmt.Errorf("the records of %s in %s are gone: bring the file %s back or, if it is lost, restore a "+
			"backup to an empty directory (docs/coordinator.md)", b.ID, b.DataDir, recordsFile)
	case len(b.Peers) > 0:
		if term, err = b.formOrJoin(ctx); err == nil && term == 0 {
			return true, nil
		}
	case b.Forget != nil:
		term, err = b.Forget(ctx, nil)
	}
	if err == nil && term > 0 {
		err = spendVotes(b.records, term)
	}
	return false, err
}

// state returns this node's answer to the other nodes.
func (b *bootstrap) state() probeReply {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := probeReply{Version: registry.Version, Node: b.ID, Process: b.process, Member: b.member, Lost: b.lost}
	if b.node != nil {
		b.node.describe(&h)
	}
	return h
}

// started notes that raft begins its work. From now on the node is a member to whoever asks.
func (b *bootstrap) started() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.member = true
}

// report has the answers carry what the running node knows.
func (b *bootstrap) report(n *Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.node = n
}

// first returns the name of the peer that forms the cluster.
func (b *bootstrap) first() string {
	return slices.MinFunc(b.Peers, func(p, q Peer) int { return strings.Compare(p.ID, q.ID) }).ID
}

// formOrJoin waits until this node, whose directory is empty, is to form the cluster (term 0), or may enter the one
// that is there, and then vote in terms after term.
func (b *bootstrap) formOrJoin(ctx context.Context) (term uint64, err error) {
	var before answers
	logged, loggedAt := "", time.Time{}
	for {
		now := b.probeAll(ctx)
		if b.ID == b.first() && b.allEmpty(before, now) {
			return 0, nil
		}
		if urls := now.urls(); len(urls) > 0 {
			term, err := b.forgetFormer(ctx, urls)
			if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return term, err
			}
		}
		if text := b.explain(now); text != logged || time.Since(loggedAt) > remindAfter {
			if before != nil { // in the first round the others may just be starting
				b.Log.Warn(text)
				logged, loggedAt = text, time.Now()
			}
		}
		before = now
		if !pause.For(ctx, probePause) {
			return 0, ctx.Err()
		}
	}
}

func (b *bootstrap) forgetFormer(ctx context.Context, urls []string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	return b.Forget(ctx, urls)
}

// answers are the other peers' replies of one round, by name, without those that were silent.
type answers map[string]*probeReply

func (a answers) urls() []string {
	var urls []string
	for _, id := range slices.Sorted(maps.Keys(a)) {
		urls = append(urls, a[id].URLs...)
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}

// allEmpty reports whether no node has lost its records, and all other peers have answered in two rounds that they are
// empty, each by the same process: then all were empty at the moment between the rounds.
func (b *bootstrap) allEmpty(before, now answers) bool {
	return !b.lost && !slices.ContainsFunc(b.Peers, func(p Peer) bool {
		was, is := before[p.ID], now[p.ID]
		return p.ID != b.ID && (was == nil || is == nil || was.Member || is.Member ||
			is.Lost || was.Process != is.Process)
	})
}

// probeAll asks all others concurrently.
func (b *bootstrap) probeAll(ctx context.Context) answers {
	now := answers{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, p := range b.Peers {
		if p.ID == b.ID {
			continue
		}
		asking.Go(func() {
			h, err := b.stream.probe(ctx, p)
			if err != nil {
				b.Log.Debug("another node does not answer", "node", p.ID, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			now[p.ID] = h
		})
	}
	asking.Wait()
	return now
}

// explain describes what a node with an empty directory waits for.
func (b *bootstrap) explain(now answers) string {
	var empty, members, silent, lost []string
	var cluster []string // addresses of its nodes, by one of them
	for _, p := range b.Peers {
		h := now[p.ID]
		if p.ID == b.ID && b.lost || h != nil && h.Lost {
			lost = append(lost, p.ID)
		}
		switch {
		case p.ID == b.ID || h != nil && !h.Member:
			empty = append(empty, p.ID)
		case h == nil:
			silent = append(silent, p.ID)
		default:
			members, cluster = append(members, p.ID), h.Addresses
		}
	}
	left := len(cluster)
	for _, p := range b.Peers {
		if slices.Contains(empty, p.ID) && slices.Contains(cluster, p.Address) {
			left--
		}
	}
	list := func(ids []string) string { return strings.Join(ids, ", ") }
	switch {
	case len(members) == 0 && len(silent) > 0:
		return "the directory is empty; waiting for " + list(silent) + ": a new cluster forms only once all of " +
			"--peers say that they are empty, too, since a silent one may hold records"
	case len(members) == 0 && len(lost) > 0:
		return "no node has any records, and those of " + list(lost) + " are gone: bring the file " + recordsFile +
			" back or, if it is lost, restore a backup: docs/coordinator.md, \"Replace lost nodes\""
	case len(members) == 0:
		return "the directory is empty, and so are all others: waiting for " + b.first() + " to form the cluster"
	case 2*left <= len(cluster) && len(cluster) > 0:
		return "the directories of most nodes are empty (" + list(empty) + "), and " + list(members) +
			" alone cannot know everything that was committed. No new cluster forms. Bring the directories back; or, " +
			"if they are lost, stop all nodes, keep those of " + list(members) + ", and restore a backup: " +
			"docs/coordinator.md, \"Replace lost nodes\""
	}
	return "the directory is empty, and " + list(members) + " hold records: waiting for a leader to add this node"
}

// Keys of raft's stable store.
var (
	keyTerm      = []byte("CurrentTerm")
	keyVoteTerm  = []byte("LastVoteTerm")
	keyVotedFor  = []byte("LastVoteCand")
	votedForgone = []byte("forgotten") // not a node's address
)

// spendVotes keeps a node that may have voted, and has forgotten for whom, from voting in that term or an earlier one.
func spendVotes(r *records, term uint64) error {
	known, err := r.GetUint64(keyTerm)
	if err != nil || known > term { // it has remembered its votes since a later term
		return err
	}
	text := binary.BigEndian.AppendUint64(nil, term)
	return r.write(map[string][]byte{string(keyVotedFor): votedForgone, string(keyVoteTerm): text, string(keyTerm): text})
}
