package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/pause"
)

// bootstrap brings a node with an empty directory into raft: it forms the first cluster, or enters the existing one as a
// node that has never voted. doc.go says why this is safe.
type bootstrap struct {
	self      string
	directory string
	stream    *stream
	others    []Peer
	fresh     bool // raft has never run in the directory
	forget    func(ctx context.Context, urls []string) (term uint64, err error)
	log       *slog.Logger

	mu       sync.Mutex
	identity identity
	member   bool
	node     *Node // nil before raft runs
}

const (
	probePause = 200 * time.Millisecond
	// forgetTimeout is how long a cluster may take to remove this node's former self before the others are asked again.
	forgetTimeout = 4 * time.Second
	// remindAfter is how often a node repeats what it waits for while that does not change.
	remindAfter = time.Minute
)

func newBootstrap(c *Config) *bootstrap {
	b := &bootstrap{self: c.ID, directory: c.DataDir, forget: c.Forget, log: c.Log}
	for _, p := range c.Peers {
		if p.ID != c.ID {
			b.others = append(b.others, p)
		}
	}
	b.stream = newStream(c, b.state)
	return b
}

// readIdentity must be called while this process holds the directory's lock, and before other nodes can ask.
func (b *bootstrap) readIdentity() (err error) {
	b.identity, err = readIdentity(b.directory)
	return err
}

// run returns once raft may start. It clears c.Peers unless the node is to form a cluster.
func (b *bootstrap) run(ctx context.Context, c *Config, p parts) error {
	defer b.started()
	empty, err := isEmpty(p)
	if err != nil || !empty {
		return err
	}
	known, err := raft.HasExistingState(p.logs, p.stable, p.snapshots)
	if err != nil {
		return fmt.Errorf("look for existing state: %w", err)
	}
	b.fresh = !known
	var term uint64
	switch {
	case len(c.Peers) > 0:
		term, err = b.formOrJoin(ctx)
	case b.forget != nil:
		term, err = b.forget(ctx, nil)
	}
	if err != nil || term == 0 {
		return err
	}
	c.Peers = nil
	if err := spendVotes(p.stable, term); err != nil {
		return fmt.Errorf("record the term: %w", err)
	}
	return nil
}

// isEmpty reports whether the directory has neither log entries nor a snapshot, hence nothing from a cluster.
func isEmpty(p parts) (bool, error) {
	last, err := p.logs.LastIndex()
	if err != nil || last > 0 {
		return false, err
	}
	snapshots, err := p.snapshots.List()
	return len(snapshots) == 0, err
}

// state returns this node's answer to the other nodes.
func (b *bootstrap) state() probeReply {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := probeReply{Version: registry.Version, Node: b.self, Directory: b.identity.Directory, Founders: b.identity.Founders, Member: b.member || b.identity.Founders != nil, Running: b.member}
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

// recordFounders notes the cluster's founders, before raft knows of them.
func (b *bootstrap) recordFounders(founders map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := identity{Directory: b.identity.Directory, Founders: founders}
	if err := id.write(b.directory); err != nil {
		return fmt.Errorf("record the founders: %w", err)
	}
	b.identity = id
	return nil
}

// formOrJoin waits until this node, whose directory is empty, is to form the cluster with the others (term 0), or may enter the one
// that is there, and then vote in terms after term.
func (b *bootstrap) formOrJoin(ctx context.Context) (term uint64, err error) {
	if b.fresh && b.identity.Founders != nil { // it had decided, but stopped before raft knew
		return 0, nil
	}
	var before answers
	logged, loggedAt := "", time.Time{}
	for {
		now := b.probeAll(ctx)
		decision, founders := b.decide(before, now)
		switch decision {
		case form:
			return 0, b.recordFounders(founders)
		case join:
			term, err := b.forgetFormer(ctx, now.urls())
			if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return term, err
			}
		}
		if text := b.explain(decision, now); text != logged || time.Since(loggedAt) > remindAfter {
			if before != nil { // in the first round the others may just be starting
				b.log.Warn(text)
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
	return b.forget(ctx, urls)
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

// probeAll asks all others concurrently.
func (b *bootstrap) probeAll(ctx context.Context) answers {
	all := make([]*probeReply, len(b.others))
	var asking sync.WaitGroup
	for i, p := range b.others {
		asking.Go(func() {
			h, err := b.stream.probe(ctx, p)
			if err != nil {
				b.log.Debug("another node does not answer", "node", p.ID, "error", err)
				return
			}
			all[i] = h
		})
	}
	asking.Wait()
	now := answers{}
	for i, h := range all {
		if h != nil {
			now[b.others[i].ID] = h
		}
	}
	return now
}

type decision int

const (
	wait decision = iota
	form
	join
)

// decide returns what to do after two rounds of questions, and who the founders are.
func (b *bootstrap) decide(before, now answers) (decision, map[string]string) {
	founders := map[string]string{b.self: b.identity.Directory}
	settled, members := true, false
	for _, p := range b.others {
		was, is := before[p.ID], now[p.ID]
		if is != nil && b.fresh && is.Founders[b.self] == b.identity.Directory {
			return form, is.Founders
		}
		members = members || is != nil && is.Member
		settled = settled && was != nil && is != nil && !was.Member && !is.Member && was.Directory == is.Directory
		if is != nil {
			founders[p.ID] = is.Directory
		}
	}
	switch {
	case settled && b.fresh:
		return form, founders
	case members && len(now.urls()) > 0:
		return join, nil
	}
	return wait, nil
}

// explain describes what a node with an empty directory waits for.
func (b *bootstrap) explain(d decision, now answers) string {
	empty, members, silent := []string{b.self}, []string(nil), []string(nil)
	for _, p := range b.others {
		switch h := now[p.ID]; {
		case h == nil:
			silent = append(silent, p.ID)
		case h.Member:
			members = append(members, p.ID)
		default:
			empty = append(empty, p.ID)
		}
	}
	list := func(ids []string) string { return strings.Join(ids, ", ") }
	switch most := len(b.others)/2 + 1; {
	case len(members) == 0 && len(silent) == 0:
		return "the directory is empty, and so are all others: about to form the cluster"
	case len(members) == 0:
		return "the directory is empty; waiting for " + list(silent) + ": a new cluster forms only once all of --peers " +
			"say that they are empty, too, since a silent one may hold records"
	case len(empty) >= most:
		return "the directories of most nodes are empty (" + list(empty) + "), and " + list(members) + " alone cannot know everything that was " +
			"committed. No new cluster forms. Bring the directories back; or, if they are lost, stop all nodes, keep those of " + list(members) +
			", and restore a backup: docs/coordinator.md, \"Replace lost nodes\""
	case d == join:
		return "the directory is empty, and " + list(members) + " hold records, but no node leads: waiting for a majority of the nodes"
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
func spendVotes(stable raft.StableStore, term uint64) error {
	known, err := stable.GetUint64(keyTerm)
	if err != nil && err.Error() != "not found" { // how raft itself recognises it
		return err
	}
	if known > term {
		return nil // it has remembered its votes since a later term
	}
	return errors.Join(stable.Set(keyVotedFor, votedForgone), stable.SetUint64(keyVoteTerm, term), stable.SetUint64(keyTerm, term))
}
