package collect_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

// huge is a task whose episodes are 3 MB: 1,000 steps of 750 observations.
type huge struct{ wide }

var hugeSpec = sim.Spec{Name: "Huge", ObservationDim: 750, ActionDim: 1, FrameSkip: 1, TimeLimit: 1000}

func newHuge(string) (sim.Env, error) { return new(huge), nil }

func (h *huge) Spec() sim.Spec { return hugeSpec }

func (h *huge) Reset(rng *rand.Rand, observation []float64) error {
	h.steps = 0
	return h.wide.Reset(rng, observation)
}

func hugePolicy(iteration uint64) *proto.Policy {
	identity := policy.Identity(hugeSpec.ObservationDim, 5)
	return &proto.Policy{Batch: iteration, Hidden: []int{1}, Params: make([]float64, 750+1+1+1+1), Mean: identity.Mean,
		Std: identity.Std, Clip: 5}
}

// stallSenders is how many actors a stalled learner has, and how many episodes its batches.
func stallSenders() int {
	if faultstest.Long() {
		return 64
	}
	return 16
}

// learn is a helper that collects one batch after the other. It writes a line about each.
func (h *helper) learn(ctx context.Context) error {
	conn, err := h.connect(ctx, "learner")
	if err != nil {
		return err
	}
	defer conn.Close()
	collector, err := collect.New(ctx, conn, collect.Config{Run: "toy", Epoch: 1, Seed: seed, Task: hugeSpec,
		Log: quiet})
	if err != nil {
		return err
	}
	defer collector.Close()
	fmt.Println("ready")
	for iteration := uint64(0); ; iteration++ {
		batch, err := collector.Collect(ctx, collect.Order{Policy: hugePolicy(iteration),
			Steps: stallSenders() * hugeSpec.TimeLimit})
		if err != nil {
			return nil // told to end, or superseded: the parent misses the lines
		}
		s := batch.Stats
		fmt.Println(hashOf(batch.Episodes), s.Dropped, s.Rejected+s.Refused, s.Duplicate)
	}
}

// hashOf returns a hash of the complete contents of the episodes.
func hashOf(episodes []*proto.Episode) string {
	hash := sha256.New()
	for _, e := range episodes {
		fmt.Fprint(hash, e.Ticket, e.Steps())
		binary.Write(hash, binary.LittleEndian, e.Observations)
		binary.Write(hash, binary.LittleEndian, e.Actions)
		binary.Write(hash, binary.LittleEndian, e.Rewards)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// undisturbed plays the tickets of a batch one after the other.
func undisturbed(t *testing.T, iteration uint64) (hash string, size int) {
	t.Helper()
	p := hugePolicy(iteration)
	shape := policy.Shape{Observation: hugeSpec.ObservationDim, Action: hugeSpec.ActionDim, Hidden: p.Hidden}
	actor, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		t.Fatal(err)
	}
	var episodes []*proto.Episode
	for i := range uint64(stallSenders()) {
		e, err := rollouttest.Play(t.Context(), new(huge), actor, ticket(iteration, i))
		if err != nil {
			t.Fatal(err)
		}
		episodes = append(episodes, e)
		size += 4*len(e.Observations) + 4*len(e.Actions) + 8*len(e.Rewards)
	}
	return hashOf(episodes), size
}

// line reads the next line of a helper.
func (p *process) line() []string {
	p.t.Helper()
	text, err := p.output.ReadString('\n')
	if err != nil {
		p.t.Fatal("a helper has ended: ", err)
	}
	return strings.Fields(text)
}

// A learner that is stopped while actors send it episodes of 3 MB takes all of them in when it goes on. Nothing is
// dropped on the way, the server cuts nobody off, and the learner never has more in its memory than the batch and as
// much again.
func TestStalledLearner(t *testing.T) {
	rng := faultstest.Rand(faultstest.Seed(t), 0)
	stalls, length := faultstest.Count(1, 5), 2*time.Second
	if faultstest.Long() {
		length = time.Minute
	}
	server, err := natsserver.Start(natsserver.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, server: server}
	t.Cleanup(server.Close)
	chunks := make(chan uint64, 1<<16) // the iterations that they are of
	watcher := l.connect()
	if _, err := watcher.Subscribe("dbqpg.toy.1.chunk.*", func(m bus.Message) {
		var c proto.Chunk
		if proto.Unmarshal(m.Data, &c) == nil {
			chunks <- c.Ticket.Batch
		}
	}); err != nil {
		t.Fatal(err)
	}
	learner := (&helper{Role: "learner", URL: server.URL()}).start(t)
	for range stallSenders() {
		l.actor(1, newHuge)
	}
	learner.line() // a first batch, after which it has the memory that it needs
	var growth []int
	duplicates, size := 0, 0
	for stall := range stalls {
		batch := uint64(1 + 2*stall)
		for n := rng.IntN(2 * stallSenders()); n >= 0; {
			if <-chunks >= batch {
				n--
			}
		}
		before := processtest.Memory(t, learner.cmd.Process.Pid, "VmRSS")
		stop(t, learner, length)
		fields := learner.line()
		var want string
		want, size = undisturbed(t, batch)
		if fields[0] != want || fields[1] != "0" || fields[2] != "0" {
			t.Errorf("hash, messages dropped, wrong, episodes twice: %q, want hash %s and 0, 0", fields, want)
		}
		again, _ := strconv.Atoi(fields[3])
		duplicates += again
		grown := processtest.Memory(t, learner.cmd.Process.Pid, "VmHWM") - before
		if growth = append(growth, grown>>20); grown > 2*size {
			t.Errorf("the learner's memory has grown by %d MB, a batch has %d", grown>>20, size>>20)
		}
		learner.line() // a batch that nothing disturbs
	}
	if n := server.SlowConsumers(); n != 0 {
		t.Errorf("the server has cut off %d connections", n)
	}
	faultstest.Report(t, "%d stalls of %v, %d senders of 3 MB episodes: 0 messages dropped, %d slow consumers, %d "+
		"episodes twice; memory grew by %d MB, to %d MB; a batch has %d MB",
		stalls, length, stallSenders(), server.SlowConsumers(), duplicates, growth,
		processtest.Memory(t, learner.cmd.Process.Pid, "VmHWM")>>20, size>>20)
}

// stop stops a process for a while.
func stop(t *testing.T, p *process, length time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(length) // it is stopped
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
