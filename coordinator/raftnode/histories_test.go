package raftnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/pause"
)

// A question that raft never answers, as it ends while it is asked, is left for good.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dbqpg/dbqpg/coordinator/raftnode.(*Node).wait.func1"))
}

const (
	clients    = 5
	operations = 24 // of each client
	experiment = "x"
	runs       = 2
)

// question is a client's request about a run: to take, commit, retry or read it.
type question struct {
	run            int
	kind           kind
	epoch          uint64 // of a commit
	previous, next string // of a commit
}

type kind int

const (
	take kind = iota
	commit
	retry
	read
)

// answer is what came back.
type answer struct {
	unknown bool // nothing: it was done, or will be, or not
	refused bool
	epoch   uint64
	hash    string
	state   registry.RunState // of a read
}

// fact is all of a run that matters to the answers.
type fact struct {
	epoch  uint64
	hash   string
	state  registry.RunState
	losses int
}

// follow returns what a run may be after a question was answered so, nothing if it cannot have been.
// A refused take may have found a lease that had not expired, for commands are stamped before they are ordered.
func follow(f fact, q question, a answer) []fact {
	switch {
	case q.kind == read:
		if a.unknown || a.epoch == f.epoch && a.hash == f.hash && a.state == f.state {
			return []fact{f}
		}
		return nil
	case a.unknown:
		unchanged := append(refusals(f, q), f)
		return append(unchanged, successes(f, q)...)
	case a.refused:
		return refusals(f, q)
	}
	var possible []fact
	for _, next := range successes(f, q) {
		if a.epoch == next.epoch && a.hash == next.hash {
			possible = append(possible, next)
		}
	}
	return possible
}

// successes returns the states that a run may have after the request was carried out.
func successes(f fact, q question) []fact {
	next := f
	switch q.kind {
	case take:
		if f.state == registry.Running {
			next.losses++
		}
		if f.state != registry.Running && f.state != registry.Queued || next.losses == registry.MaxLosses {
			return nil
		}
		next.epoch, next.state = f.epoch+1, registry.Running
	case commit:
		if f.state != registry.Running || q.epoch != f.epoch || q.previous != f.hash {
			return nil
		}
		next.hash, next.losses = q.next, 0
	case retry:
		if f.state != registry.Failed {
			return nil
		}
		next.state, next.losses = registry.Queued, 0
	}
	return []fact{next}
}

// refusals returns the states that a run may have after the request was refused.
func refusals(f fact, q question) []fact {
	if q.kind != take {
		if len(successes(f, q)) > 0 {
			return nil // it would have been done
		}
		return []fact{f}
	}
	if f.state == registry.Running && f.losses+1 == registry.MaxLosses {
		failed := f
		failed.state, failed.losses = registry.Failed, f.losses+1
		return []fact{f, failed}
	}
	if f.state == registry.Queued {
		return nil
	}
	return []fact{f}
}

// model reports whether a history of one run could be that of a registry which does one thing after the other.
var model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, runs)
		for _, o := range history {
			run := o.Input.(question).run
			parts[run] = append(parts[run], o)
		}
		return parts
	},
	Init: func() []any { return []any{fact{state: registry.Queued}} },
	Step: func(state, input, output any) []any {
		var next []any
		for _, f := range follow(state.(fact), input.(question), output.(answer)) {
			next = append(next, f)
		}
		return next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}).ToModel()

// The checker is worth nothing if it lets everything through.
func TestModelFindsFaults(t *testing.T) {
	first := porcupine.Operation{Input: question{kind: take}, Output: answer{epoch: 1}, Call: 0, Return: 1}
	second := porcupine.Operation{Input: question{kind: commit, epoch: 1, next: "a"},
		Output: answer{epoch: 1, hash: "a"}, Call: 2, Return: 3}
	for name, c := range map[string]struct {
		third porcupine.Operation
		want  bool
	}{
		"a read": {porcupine.Operation{Input: question{kind: read},
			Output: answer{epoch: 1, hash: "a", state: registry.Running}}, true},
		"a stale read": {porcupine.Operation{Input: question{kind: read},
			Output: answer{epoch: 1, state: registry.Running}}, false},
		"a lost commit": {porcupine.Operation{Input: question{kind: commit, epoch: 1, next: "b"},
			Output: answer{epoch: 1, hash: "b"}}, false},
		"an epoch twice": {porcupine.Operation{Input: question{kind: take}, Output: answer{epoch: 1, hash: "a"}},
			false},
		"the next epoch": {porcupine.Operation{Input: question{kind: take}, Output: answer{epoch: 2, hash: "a"}},
			true},
		"a commit, refused": {porcupine.Operation{Input: question{kind: commit, epoch: 1, previous: "a", next: "b"},
			Output: answer{refused: true}}, false},
		"a commit, unknown": {porcupine.Operation{Input: question{kind: commit, epoch: 1, previous: "a", next: "b"},
			Output: answer{unknown: true}}, true},
		"an old epoch's hash": {porcupine.Operation{Input: question{kind: commit, epoch: 0, previous: "a", next: "b"},
			Output: answer{epoch: 1, hash: "b"}}, false},
	} {
		c.third.Call, c.third.Return = 4, 5
		if got := porcupine.CheckOperations(model, []porcupine.Operation{first, second, c.third}); got != c.want {
			t.Errorf("%s: linearizable is %v, want %v", name, got, c.want)
		}
	}
}

// Under lost, delayed and repeated messages, partitions, restarts, lost disks and membership changes, clients observe
// a single registry, and in the end all nodes have the same state.
func TestHistories(t *testing.T) {
	seed, histories := faultstest.Seed(t), faultstest.Count(6, 1000)
	var all tally
	t.Run("history", func(t *testing.T) {
		for i := range uint64(histories) {
			t.Run(fmt.Sprint("seed=", seed+i), func(t *testing.T) {
				t.Parallel()
				checkHistory(t, seed+i, &all)
			})
		}
	})
	all.require(t, 0.8, 0.25)
	if all.lost == 0 || all.restarts == 0 {
		t.Errorf("nothing befell the clusters: %v", &all)
	}
	faultstest.Report(t, "%d histories linearizable; %v", histories, &all)
}

// require fails unless shares of the operations were answered, and were done rather than refused: any history is
// linearizable of which nothing is known.
func (a *tally) require(t *testing.T, answered, done float64) {
	t.Helper()
	n := float64(a.operations)
	if known := n - float64(a.unknown); known < answered*n || known-float64(a.refused) < done*n {
		t.Errorf("of too few operations it is known what became of them, or too few were done: %v", a)
	}
}

// tally is what befell the histories together.
type tally struct {
	mu                                                  sync.Mutex
	operations, unknown, refused                        int
	lost, delayed, repeated, installed, restarts, disks int
}

func (a *tally) String() string {
	return fmt.Sprintf("%d operations, %d unknown, %d refused; messages: %d lost, %d delayed, %d repeated; %d "+
		"restarts; %d disks lost; %d snapshots installed",
		a.operations, a.unknown, a.refused, a.lost, a.delayed, a.repeated, a.restarts, a.disks, a.installed)
}

func (a *tally) add(b *tally) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.operations, a.unknown, a.refused = a.operations+b.operations, a.unknown+b.unknown, a.refused+b.refused
	a.lost, a.delayed, a.repeated = a.lost+b.lost, a.delayed+b.delayed, a.repeated+b.repeated
	a.installed, a.restarts, a.disks = a.installed+b.installed, a.restarts+b.restarts, a.disks+b.disks
}

func checkHistory(t *testing.T, seed uint64, all *tally) {
	rng := rand.New(rand.NewPCG(seed, 0))
	c := newCluster(t, 3, rand.New(rand.NewPCG(seed, 1)))
	c.mustPropose(submit(experiment, runs))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	during, end := context.WithCancel(ctx)
	var misfortune sync.WaitGroup
	misfortune.Go(func() { c.misfortune(during, rng) })

	h := &history{cluster: c, begin: time.Now()}
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() { h.client(ctx, i, rand.New(rand.NewPCG(seed, uint64(2+i)))) })
	}
	asking.Wait()
	end()
	misfortune.Wait()
	for run := range runs {
		h.probe(deadline(t), 0, "last", 1+uint64(run), question{run: run, kind: read}, 0)
	}
	result, info := porcupine.CheckOperationsVerbose(model, h.operations, patience)
	if result != porcupine.Ok {
		path := t.ArtifactDir() + "/history.html"
		t.Errorf("seed %d: the history is %s; see %s (%v)", seed, result, path,
			porcupine.VisualizePath(model, info, path))
	}
	c.requireAgreement()
	n := c.network.count
	one := &tally{
		operations: len(h.operations), unknown: h.unknown, refused: h.refused, restarts: c.restarts, disks: c.lost,
		lost: n.lost, delayed: n.delayed, repeated: n.repeated, installed: n.installed,
	}
	t.Log(one)
	one.require(t, 0.5, 0)
	all.add(one)
}

// misfortune befalls a cluster during a context; then all is well again.
func (c *cluster) misfortune(during context.Context, rng *rand.Rand) {
	addresses := []raft.ServerAddress{"n1", "n2", "n3", "n4"}
	for {
		switch rng.IntN(9) {
		case 0:
			c.network.set(0, 0, 0)
			c.network.divide(addresses, nil, false)
		case 1:
			c.network.set(0.1, 0.2, 20*time.Millisecond)
		case 2, 3:
			cut := addresses[rng.IntN(len(addresses))]
			if leader := c.leader(); leader != nil && rng.IntN(2) == 0 {
				cut = raft.ServerAddress(leader.ID())
			}
			c.network.divide(addresses, []raft.ServerAddress{cut}, rng.IntN(2) == 0)
		case 4, 5:
			c.restart(fmt.Sprint("n", 1+rng.IntN(3)))
		case 6:
			if leader := c.leader(); leader != nil {
				leader.raft.LeadershipTransfer() // whether it succeeds or not
			}
		case 7:
			c.exchange()
		case 8:
			c.network.divide(addresses, nil, false)
			c.lose(fmt.Sprint("n", 1+rng.IntN(3)))
		}
		if !pause.For(during, time.Duration(20+rng.IntN(150))*time.Millisecond) { // how long it lasts
			c.network.set(0, 0, 0)
			c.network.divide(addresses, nil, false)
			return
		}
	}
}

// restart stops a node and starts it again with its disk.
func (c *cluster) restart(id string) {
	if c.node(id) != nil {
		c.stop(id)
		c.start(id, nil)
		c.restarts++
	}
}

// lose has a node lose its disk and come back under its name.
func (c *cluster) lose(id string) {
	c.t.Helper()
	if c.node(id) == nil {
		return
	}
	ctx := deadline(c.t)
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// which may have ended: the promise is for one lost of three
	three := func(n *Node) error { return n.Remove(short, "n4") }
	if c.probe(short, three) != nil {
		return
	}
	c.stop(id)
	delete(c.disks, id)
	c.lost++
	var term uint64
	err := c.probe(ctx, func(n *Node) (err error) {
		if err = n.Remove(ctx, id); err == nil { // Forget, but for the question to a node that is not there yet
			term = n.raft.CurrentTerm()
		}
		return err
	})
	if err != nil {
		c.t.Errorf("%s is not forgotten: %v", id, err)
		return
	}
	c.start(id, nil, term)
	if err := c.probe(ctx, func(n *Node) error { return n.Join(ctx, Peer{id, id}) }); err != nil {
		c.t.Errorf("%s does not come back: %v", id, err)
	}
}

// exchange joins a fourth node, or takes it out; whether that succeeds depends on all the rest.
func (c *cluster) exchange() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	leader := c.leader()
	if leader == nil {
		return
	}
	for _, m := range leader.Members() {
		if m.ID == "n4" {
			_ = leader.Remove(ctx, "n4")
			return
		}
	}
	c.stop("n4") // one that was taken out has ended
	c.start("n4", nil)
	_ = leader.Join(ctx, Peer{"n4", "n4"})
}

// history is what clients asked and were answered.
type history struct {
	*cluster
	begin time.Time

	mu               sync.Mutex
	operations       []porcupine.Operation
	unknown, refused int
}

// client asks one thing after the other.
func (h *history) client(ctx context.Context, number int, rng *rand.Rand) {
	var known [runs]registry.Run
	for i := range operations {
		q := question{run: rng.IntN(runs), kind: []kind{take, commit, commit, commit, retry, read}[rng.IntN(6)]}
		was := &known[q.run]
		if q.kind == commit {
			q.epoch, q.next = was.Epoch, fmt.Sprintf("%064x", 1000*number+i)
			if was.Checkpoint != nil {
				q.previous = was.Checkpoint.SHA256
			}
		}
		short, cancel := context.WithTimeout(ctx, time.Duration(50+rng.IntN(1000))*time.Millisecond)
		if run := h.probe(short, number, fmt.Sprint("client", number), uint64(i+1), q, was.Iteration()+1); run != nil {
			*was = *run
		}
		cancel()
		pause.For(ctx, time.Duration(rng.IntN(60))*time.Millisecond) // a client has other things to do
	}
}

// probe asks one thing and notes it. It returns the run, if it learned what that is.
func (h *history) probe(ctx context.Context, client int, name string, number uint64, q question,
	iteration uint64) *registry.Run {
	call := time.Since(h.begin)
	run, refused, err := h.answer(ctx, name, number, q, iteration)
	done := time.Since(h.begin)
	a := answer{unknown: err != nil, refused: refused}
	if err != nil {
		done = 10 * patience // it may take effect at any time from now on
	} else if run != nil {
		a.epoch, a.state = run.Epoch, run.State
		if run.Checkpoint != nil {
			a.hash = run.Checkpoint.SHA256
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: q, Call: int64(call), Output: a,
		Return: int64(done)})
	if err != nil {
		h.unknown++
	}
	if refused {
		h.refused++
	}
	return run
}

// answer asks until there is an answer.
func (h *history) answer(ctx context.Context, name string, number uint64, q question,
	iteration uint64) (run *registry.Run, refused bool, err error) {
	full := fmt.Sprintf("%s/t/a-e-s%d", experiment, q.run+1)
	command := registry.Command{Request: registry.Request{Client: name, Number: number}}
	switch q.kind {
	case read:
		err := h.cluster.probe(ctx, func(n *Node) error {
			return n.Read(ctx, func(s *registry.State) {
				now := *s.Run(full)
				run = &now
			})
		})
		return run, false, err
	case take:
		command.Take = &registry.Take{Learner: "l", TTL: registry.MinTTL.Seconds(), Run: full}
	case commit:
		command.Commit = &registry.Commit{
			Hold: registry.Hold{Run: full, Epoch: q.epoch}, Previous: q.previous,
			Checkpoint: registry.Checkpoint{Iteration: iteration, SHA256: q.next},
		}
	case retry:
		command.Steer = &registry.Steer{Name: full, Action: registry.Retry}
	}
	r, err := h.propose(ctx, command)
	if err != nil {
		return nil, false, err
	}
	if r.Refusal != nil && errors.Is(r.Refusal, &registry.Refusal{Code: registry.Forgotten}) {
		panic("a client was told that it has gone on, which it has not")
	}
	return r.Run, r.Refusal != nil, nil
}
