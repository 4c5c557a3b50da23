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

	"github.com/dbqpg/dbqpg/internal/pause"
)

// entrance is how a node with an empty directory gets into raft: it forms the first cluster, or enters the one that is there
// as somebody who has never voted. doc.go says why it is safe.
type entrance struct {
	self      string
	directory string
	stream    *stream
	others    []Peer
	fresh     bool // raft has never been at work in the directory
	forget    func(ctx context.Context, urls []string) (term uint64, err error)
	log       *slog.Logger

	mu     sync.Mutex
	origin origin
	member bool
	urls   func() []string // nil before raft is at work
}

const (
	askPause = 200 * time.Millisecond
	// forgetTimeout is how long a cluster has to take this node's earlier self out, before the others are asked again.
	forgetTimeout = 4 * time.Second
	// remindAfter is how long a node is silent about what it waits for, while that does not change.
	remindAfter = time.Minute
)

func newEntrance(c *Config) *entrance {
	e := &entrance{self: c.ID, directory: c.DataDir, forget: c.Forget, log: c.Log}
	for _, p := range c.Peers {
		if p.ID != c.ID {
			e.others = append(e.others, p)
		}
	}
	e.stream = newStream(c, e.holding)
	return e
}

// readOrigin is called once the directory is this process's alone, and before anybody can ask.
func (e *entrance) readOrigin() (err error) {
	e.origin, err = readOrigin(e.directory)
	return err
}

// pass returns once raft may begin. Where it is not to form a cluster, c has no Peers any more.
func (e *entrance) pass(ctx context.Context, c *Config, p parts) error {
	defer e.opens()
	empty, err := isEmpty(p)
	if err != nil || !empty {
		return err
	}
	known, err := raft.HasExistingState(p.logs, p.stable, p.snapshots)
	if err != nil {
		return fmt.Errorf("look for an earlier state: %w", err)
	}
	e.fresh = !known
	var term uint64
	switch {
	case len(c.Peers) > 0:
		term, err = e.enter(ctx)
	case e.forget != nil:
		term, err = e.forget(ctx, nil)
	}
	if err != nil || term == 0 {
		return err
	}
	c.Peers = nil
	if err := spendVotes(p.stable, term); err != nil {
		return fmt.Errorf("note the term: %w", err)
	}
	return nil
}

// isEmpty reports whether there is neither a log nor a snapshot: nothing that a cluster has told this node.
func isEmpty(p parts) (bool, error) {
	last, err := p.logs.LastIndex()
	if err != nil || last > 0 {
		return false, err
	}
	snapshots, err := p.snapshots.List()
	return len(snapshots) == 0, err
}

// holding is what this node answers to the others.
func (e *entrance) holding() holding {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := holding{Node: e.self, Directory: e.origin.Directory, Founders: e.origin.Founders, Member: e.member || e.origin.Founders != nil}
	if e.urls != nil {
		h.URLs = e.urls()
	}
	return h
}

// opens notes that raft begins its work. From now on the node is a member to whoever asks.
func (e *entrance) opens() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.member = true
}

// follow has the answers carry the URLs of the cluster's nodes.
func (e *entrance) follow(urls func() []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.urls = urls
}

// found notes the cluster's founders, before raft knows of them.
func (e *entrance) found(founders map[string]string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := origin{Directory: e.origin.Directory, Founders: founders}
	if err := o.write(e.directory); err != nil {
		return fmt.Errorf("note the founders: %w", err)
	}
	e.origin = o
	return nil
}

// enter waits until this node, whose directory is empty, is to form the cluster with the others (term 0), or may enter the one
// that is there, and then vote in terms after term.
func (e *entrance) enter(ctx context.Context) (term uint64, err error) {
	if e.fresh && e.origin.Founders != nil { // it had decided, and ended before raft knew
		return 0, nil
	}
	var before answers
	told, toldAt := "", time.Time{}
	for {
		now := e.askAll(ctx)
		decision, founders := e.decide(before, now)
		switch decision {
		case form:
			return 0, e.found(founders)
		case join:
			term, err := e.askToForget(ctx, now.urls())
			if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return term, err
			}
		}
		if text := e.explain(decision, now); text != told || time.Since(toldAt) > remindAfter {
			if before != nil { // the others may just be starting
				e.log.Warn(text)
				told, toldAt = text, time.Now()
			}
		}
		before = now
		if !pause.For(ctx, askPause) {
			return 0, ctx.Err()
		}
	}
}

func (e *entrance) askToForget(ctx context.Context, urls []string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	return e.forget(ctx, urls)
}

// answers are what the other peers said, by name, in one round; who was silent is not there.
type answers map[string]*holding

func (a answers) urls() []string {
	var urls []string
	for _, id := range slices.Sorted(maps.Keys(a)) {
		urls = append(urls, a[id].URLs...)
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}

// askAll asks all others at the same time.
func (e *entrance) askAll(ctx context.Context) answers {
	all := make([]*holding, len(e.others))
	var asking sync.WaitGroup
	for i, p := range e.others {
		asking.Go(func() {
			h, err := e.stream.ask(ctx, p)
			if err != nil {
				e.log.Debug("another node does not answer", "node", p.ID, "error", err)
				return
			}
			all[i] = h
		})
	}
	asking.Wait()
	now := answers{}
	for i, h := range all {
		if h != nil {
			now[e.others[i].ID] = h
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

// decide says what to do after two rounds of questions, and who the founders are.
func (e *entrance) decide(before, now answers) (decision, map[string]string) {
	founders := map[string]string{e.self: e.origin.Directory}
	settled, members := true, false
	for _, p := range e.others {
		was, is := before[p.ID], now[p.ID]
		if is != nil && e.fresh && is.Founders[e.self] == e.origin.Directory {
			return form, is.Founders
		}
		members = members || is != nil && is.Member
		settled = settled && was != nil && is != nil && !was.Member && !is.Member && was.Directory == is.Directory
		if is != nil {
			founders[p.ID] = is.Directory
		}
	}
	switch {
	case settled && e.fresh:
		return form, founders
	case members && len(now.urls()) > 0:
		return join, nil
	}
	return wait, nil
}

// explain says what a node with an empty directory waits for.
func (e *entrance) explain(d decision, now answers) string {
	empty, members, silent := []string{e.self}, []string(nil), []string(nil)
	for _, p := range e.others {
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
	switch most := len(e.others)/2 + 1; {
	case len(members) == 0 && len(silent) == 0:
		return "the directory is empty, and so are all others: the cluster is about to be formed"
	case len(members) == 0:
		return "the directory is empty, and so it waits for " + list(silent) + ": a new cluster is formed only once all of --peers " +
			"say that they are empty, too, for one that is silent may hold records"
	case len(empty) >= most:
		return "the directories of most nodes are empty (" + list(empty) + "), and " + list(members) + " alone cannot know all that was " +
			"agreed. Nothing is begun anew. Bring the directories back; or, if they are lost, stop all nodes, keep those of " + list(members) +
			", and restore a backup: docs/coordinator.md, \"Replace lost nodes\""
	case d == join:
		return "the directory is empty, and " + list(members) + " hold records, but no node leads: it waits until most nodes are there"
	}
	return "the directory is empty, and " + list(members) + " hold records: it waits until a leader takes it in"
}

// Keys of raft's stable store.
var (
	keyTerm      = []byte("CurrentTerm")
	keyVoteTerm  = []byte("LastVoteTerm")
	keyVotedFor  = []byte("LastVoteCand")
	votedForgone = []byte("forgotten") // no node's address
)

// spendVotes has a node that may have voted, and has forgotten for whom, never vote in that term or an earlier one.
func spendVotes(stable raft.StableStore, term uint64) error {
	known, err := stable.GetUint64(keyTerm)
	if err != nil && err.Error() != "not found" { // as raft itself tells
		return err
	}
	if known > term {
		return nil // it remembers since a later one
	}
	return errors.Join(stable.Set(keyVotedFor, votedForgone), stable.SetUint64(keyVoteTerm, term), stable.SetUint64(keyTerm, term))
}
