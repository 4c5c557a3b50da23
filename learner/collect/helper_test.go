package collect_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

// helperVariable makes the test's program a helper: a NATS server, a learner, senders of episodes, readers of policies,
// or actors. Each is a process of its own, so that what it costs is known apart from what the learner costs.
const helperVariable = "DBQPG_COLLECT_HELPER"

// helper says what a helper is to do.
type helper struct {
	Role        string // "server", "learner", "senders", "readers" or "actors"
	Credentials string // directory of everybody's, "" for none
	URL         string // of the server, for the others
	Connections int
	Slots       int           // of senders, on each connection
	Task        sim.Spec      // that senders send
	Step        time.Duration // that actors sleep
}

// runHelper is the main function of the helper process: it reports its readiness with one line, and works until its
// standard input ends.
func runHelper(text string) int {
	var h helper
	err := json.Unmarshal([]byte(text), &h)
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it or dies
			cancel()
		}()
		err = h.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (h *helper) run(ctx context.Context) error {
	switch h.Role {
	case "server":
		return h.serve(ctx)
	case "learner":
		return h.learn(ctx)
	case "readers":
		return h.eachConnection(ctx, func(conn *bus.Conn) error { return read(ctx, conn) })
	case "actors":
		return h.eachConnection(ctx, func(conn *bus.Conn) error {
			newEnv := func(string) (sim.Env, error) { return &sleeper{step: h.Step}, nil }
			return rollout.Run(ctx, rollout.Config{Conn: conn, Slots: 1, NewEnv: newEnv, Log: quiet})
		})
	}
	return h.send(ctx)
}

// eachConnection does something on every connection at the same time.
func (h *helper) eachConnection(ctx context.Context, do func(*bus.Conn) error) error {
	var all errgroup.Group
	for range h.Connections {
		conn, err := h.connect(ctx, "actor")
		if err != nil {
			return err
		}
		defer conn.Close()
		all.Go(func() error { return do(conn) })
	}
	fmt.Println("ready")
	return all.Wait()
}

// read reads and decodes the run's policy, again and again.
func read(ctx context.Context, conn *bus.Conn) error {
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		data, _, err := store.Get(ctx, "toy")
		if err == nil {
			err = proto.Unmarshal(data, new(proto.Policy))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// load returns a member's credentials, nil if nobody has any.
func (h *helper) load(member string) (*credentials.Credentials, error) {
	if h.Credentials == "" {
		return nil, nil
	}
	return credentials.Load(filepath.Join(h.Credentials, member), quiet)
}

func (h *helper) serve(ctx context.Context) error {
	own, err := h.load("nats")
	if err != nil {
		return err
	}
	config := natsserver.Config{Log: quiet}
	if own != nil {
		if config.Auth, err = own.ServerAuth(); err != nil {
			return err
		}
	}
	server, err := natsserver.Start(config)
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Println(server.URL())
	<-ctx.Done()
	return nil
}

// connect connects to the helper's server.
func (h *helper) connect(ctx context.Context, member string) (*bus.Conn, error) {
	own, err := h.load(member)
	if err != nil {
		return nil, err
	}
	config := bus.ConnConfig{Log: slog.New(slog.NewTextHandler(os.Stderr,
		&slog.HandlerOptions{Level: slog.LevelError}))}
	if own != nil {
		config.Identity = own.Identity()
	}
	return bus.Connect(ctx, h.URL, config)
}

func (h *helper) send(ctx context.Context) error {
	prepared, err := prepare(h.Task)
	if err != nil {
		return err
	}
	var all errgroup.Group
	for c := range h.Connections {
		conn, err := h.connect(ctx, "actor")
		if err != nil {
			return err
		}
		defer conn.Close()
		for n := range h.Slots {
			s := &sender{
				conn: conn, slot: proto.Slot{Actor: fmt.Sprint("sender-", c), Number: uint64(n)},
				room: bytes.Clone(prepared), chunk: proto.ChunkSize(conn.MaxPayload()),
			}
			all.Go(func() error { return s.run(ctx) })
		}
	}
	fmt.Println("ready")
	return all.Wait()
}

// headroom is the space kept before what all episodes of a sender share, for the ticket, which they don't.
const headroom = 1 << 10

// engine is the field after the ticket's, as it is encoded.
const engine = "\xa6engine"

// prepare returns headroom and, behind it, an encoded episode of the task's full length without its beginning: the
// ticket.
func prepare(task sim.Spec) ([]byte, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	e := blank(proto.Ticket{Run: "toy"}, task, task.TimeLimit)
	for i := range e.Observations {
		e.Observations[i] = float32(rng.NormFloat64())
	}
	for i := range e.Actions {
		e.Actions[i] = float32(rng.NormFloat64())
	}
	for i := range e.Rewards {
		e.Rewards[i] = rng.NormFloat64()
	}
	data, err := proto.Marshal(nil, e)
	if err != nil {
		return nil, err
	}
	beginning, _, _ := bytes.Cut(data, []byte(engine))
	return append(make([]byte, headroom), data[len(beginning):]...), nil
}

func blank(t proto.Ticket, task sim.Spec, steps int) *proto.Episode {
	return &proto.Episode{
		Ticket: t, Engine: engine[1:], Observations: make([]float32, steps*task.ObservationDim),
		FinalObservation: make([]float32, task.ObservationDim),
		Actions:          make([]float32, steps*task.ActionDim), Rewards: make([]float64, steps),
	}
}

// sender sends the same episode for every ticket that it gets, as fast as it is taken.
type sender struct {
	conn     *bus.Conn
	slot     proto.Slot
	room     []byte // as prepare returns it
	chunk    int
	outgoing []byte
}

func (s *sender) run(ctx context.Context) error {
	const pause = 2 * time.Millisecond
	for ctx.Err() == nil {
		reply, err := s.request(ctx, 1, &proto.Ask{Slot: s.slot})
		for err == nil && reply.Next != nil {
			reply, err = s.upload(ctx, *reply.Next)
		}
		switch {
		case ctx.Err() != nil:
		case err == nil || errors.Is(err, bus.ErrNoResponder):
			time.Sleep(pause) // until there is a ticket, or credit
		default:
			return err
		}
	}
	return nil
}

// upload sends a ticket's episode and returns the last answer.
func (s *sender) upload(ctx context.Context, t proto.Ticket) (*proto.Reply, error) {
	data, err := s.encode(t)
	if err != nil {
		return nil, err
	}
	reply, err := s.request(ctx, t.Epoch, &proto.Offer{Slot: s.slot, Ticket: t, Size: uint64(len(data))})
	parts := (len(data) + s.chunk - 1) / s.chunk
	for part := 0; part < parts && err == nil && reply.Status == proto.OK; part++ {
		reply, err = s.request(ctx, t.Epoch, &proto.Chunk{
			Slot: s.slot, Ticket: t, Part: uint64(part), Parts: uint64(parts), More: true,
			Data: data[part*s.chunk : min((part+1)*s.chunk, len(data))],
		})
	}
	if err == nil && reply.Status == proto.Refused {
		err = errors.New(reply.Reason)
	}
	return reply, err
}

// encode puts a ticket before the prepared episode.
func (s *sender) encode(t proto.Ticket) ([]byte, error) {
	beginning, err := proto.Marshal(nil, blank(t, sim.Spec{ObservationDim: 1, ActionDim: 1}, 1))
	if err != nil {
		return nil, err
	}
	beginning, _, _ = bytes.Cut(beginning, []byte(engine))
	if len(beginning) > headroom {
		return nil, errors.New("no room for the ticket")
	}
	copy(s.room[headroom-len(beginning):], beginning)
	return s.room[headroom-len(beginning):], nil
}

func (s *sender) request(ctx context.Context, epoch uint64, m proto.Request) (*proto.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	if s.outgoing, err = proto.Marshal(s.outgoing[:0], m); err != nil {
		return nil, err
	}
	answer, err := s.conn.Request(ctx, proto.SubjectsOf("toy").Request(epoch, m, s.conn.Member()), s.outgoing)
	if err != nil {
		return nil, err
	}
	reply := new(proto.Reply)
	return reply, proto.Unmarshal(answer, reply)
}

// process is a helper at work.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	ready  string        // its line
	output *bufio.Reader // what it writes after that
}

// start starts a helper and waits until it is ready. It ends with the test.
func (h *helper) start(t testing.TB) *process {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), helperVariable+"="+string(text)), os.Stderr
	input, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("a helper: %v", err)
		}
	})
	p.output = bufio.NewReader(output)
	line, err := p.output.ReadString('\n')
	if err != nil {
		t.Fatal("a helper is not ready: ", err)
	}
	p.ready = strings.TrimSpace(line)
	return p
}

// processorTime returns the CPU time of a process so far, which the kernel counts in hundredths of a second.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("processor times are read from /proc: ", err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // in user's mode and in the kernel's
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
