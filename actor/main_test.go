package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// TestMain makes the test's own binary the actor when it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv("DBQPG_TEST_AS_ACTOR") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const patience = time.Minute

var quiet = slog.New(slog.DiscardHandler)

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// process is an actor in a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string // of its standard error
	output []string    // those that were read
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), "DBQPG_TEST_AS_ACTOR=1")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.wait()
		}
	})
	return p
}

// await reads the process's output until a line holds text.
func (p *process) await(text string) {
	p.t.Helper()
	timeout := deadline(p.t)
	for {
		select {
		case line, ok := <-p.lines:
			p.output = append(p.output, line)
			if strings.Contains(line, text) {
				return
			}
			if !ok {
				p.t.Fatalf("the actor ended without saying %q: %q", text, p.output)
			}
		case <-timeout.Done():
			p.t.Fatalf("the actor does not say %q: %q", text, p.output)
		}
	}
}

// wait returns the process's exit code once it has ended, -1 for a signal.
func (p *process) wait() int {
	for line := range p.lines {
		p.output = append(p.output, line)
	}
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func startServer(t testing.TB, config natsserver.Config) *natsserver.Server {
	t.Helper()
	config.Log = quiet
	server, err := natsserver.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// learner returns a collector for the task and a policy to collect under.
func learner(t testing.TB, server *natsserver.Server, task string) (*collect.Collector, *proto.Policy) {
	t.Helper()
	spec, err := sim.Lookup(task)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect(bus.ConnConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	collector, err := collect.New(deadline(t), conn, collect.Config{
		Run: task + "/test", Epoch: 1, Seed: 5, Task: spec, Lease: 2 * time.Second, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(collector.Close)
	shape := policy.Shape{Observation: spec.ObservationDim, Action: spec.ActionDim, Hidden: []int{64, 64}}
	rng := streams.New(5, streams.Policy)
	p := &proto.Policy{Hidden: shape.Hidden, Params: make([]float64, shape.NumParams()), Clip: 5}
	for i := range p.Params {
		p.Params[i] = 0.1 * rng.NormFloat64()
	}
	identity := policy.Identity(spec.ObservationDim, 5)
	p.Mean, p.Std = identity.Mean, identity.Std
	return collector, p
}

// collectAll collects three batches; during the second, meanwhile is called.
func collectAll(t *testing.T, collector *collect.Collector, p *proto.Policy, minSteps int,
	meanwhile func()) []*proto.Episode {
	t.Helper()
	var episodes []*proto.Episode
	for iteration := range uint64(3) {
		done := make(chan struct{})
		if iteration == 1 && meanwhile != nil {
			go func() { defer close(done); meanwhile() }()
		} else {
			close(done)
		}
		p.Batch = iteration
		b, err := collector.Collect(deadline(t), collect.Order{Policy: p, Steps: minSteps})
		if err != nil {
			t.Fatal(err)
		}
		episodes = append(episodes, b.Episodes...)
		<-done
	}
	return episodes
}

// Three processes, of which one is killed in the middle of an episode, bring the same batches as one slot in the
// learner's own process, bit for bit.
func TestKilledProcess(t *testing.T) {
	for task, minSteps := range map[string]int{"Swimmer-v2": 6000, "Hopper-v2": 2000} {
		t.Run(task, func(t *testing.T) {
			alone := startServer(t, natsserver.Config{})
			collector, p := learner(t, alone, task)
			conn, err := alone.Connect(bus.ConnConfig{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithCancel(context.Background())
			left := make(chan error)
			go func() {
				left <- rollout.Run(ctx, rollout.Config{Conn: conn, Run: task + "/test", Slots: 1, NewEnv: tasks.New,
					Engine: tasks.Engine(), Log: quiet})
			}()
			want := collectAll(t, collector, p, minSteps, nil)
			cancel()
			if err := <-left; err != nil {
				t.Error(err)
			}

			server := startServer(t, natsserver.Config{})
			collector, p = learner(t, server, task)
			victim := start(t, "--nats", server.URL(), "--slots", "2")
			start(t, "--nats", server.URL(), "--slots", "1")
			start(t, "--nats", server.URL(), "--slots", "1")
			got := collectAll(t, collector, p, minSteps, func() {
				for collector.Status().Steps == 0 {
					runtime.Gosched()
				}
				victim.cmd.Process.Kill()
				victim.wait()
			})
			if len(got) != len(want) {
				t.Fatalf("%d episodes, want %d", len(got), len(want))
			}
			for i := range want {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("episode %d, of %v, differs", i, want[i].Ticket)
				}
			}
		})
	}
}

// An actor that can play for none of the runs that it has found says why at /readyz, until it can.
func TestRefusedIsNotReady(t *testing.T) {
	server := startServer(t, natsserver.Config{})
	_, p := learner(t, server, "Swimmer-v2")
	unknown, err := server.Connect(bus.ConnConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unknown.Close)
	task := sim.Spec{Name: "Unknown-v9", ObservationDim: 8, ActionDim: 2, TimeLimit: 1000}
	other, err := collect.New(deadline(t), unknown,
		collect.Config{Run: "unknown", Epoch: 1, Task: task, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	ctx, cancel := context.WithCancel(deadline(t))
	collected := make(chan error, 1)
	go func() {
		_, err := other.Collect(ctx, collect.Order{Policy: p, Steps: 3000})
		collected <- err
	}()
	actor := start(t, "--nats", server.URL(), "--run", "unknown*", "--metrics-listen", "127.0.0.1:0")
	actor.await("serving metrics")
	_, url, _ := strings.Cut(actor.output[len(actor.output)-1], "url=")
	url = strings.TrimSuffix(strings.Fields(url)[0], "/metrics") + "/readyz"
	for text := ""; !strings.Contains(text, "Unknown-v9"); {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if text = string(body); strings.Contains(text, "Unknown-v9") != (response.StatusCode == 503) && text != "starting\n" {
			t.Fatalf("%d %s", response.StatusCode, text)
		}
		if ctx.Err() != nil {
			t.Fatal("the actor is ready, though it can play for no run: ", text)
		}
	}
	cancel()
	<-collected
}

// A signal makes an actor give its tickets back and leave.
func TestSignal(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		server := startServer(t, natsserver.Config{})
		collector, p := learner(t, server, "Swimmer-v2")
		actor := start(t, "--nats", server.URL(), "--slots", "2")
		collected := make(chan error)
		go func() {
			_, err := collector.Collect(deadline(t), collect.Order{Policy: p, Steps: 3000})
			collected <- err
		}()
		actor.await("joined")
		if err := actor.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := actor.wait(); code != 0 || !strings.Contains(strings.Join(actor.output, "\n"), "left") {
			t.Errorf("%v: exit code %d, %q", signal, code, actor.output)
		}
		start(t, "--nats", server.URL())
		if err := <-collected; err != nil {
			t.Error(err)
		}
	}
}

// An actor waits for its server, says so, and leaves when told although there is none.
func TestNoServer(t *testing.T) {
	actor := start(t, "--nats", "nats://127.0.0.1:1")
	actor.await("no NATS server answers; trying again")
	if err := actor.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := actor.wait(); code != 0 {
		t.Errorf("exit code %d, %q", code, actor.output)
	}
}

// Nothing below the least level is written.
func TestLogLevel(t *testing.T) {
	actor := start(t, "--nats", "nats://127.0.0.1:1", "--log-level", "warn")
	actor.await("level=WARN")
	if err := actor.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := actor.wait(); code != 0 || strings.Contains(strings.Join(actor.output, "\n"), "level=INFO") {
		t.Errorf("exit code %d, %q", code, actor.output)
	}
}

// A server without a learner is waited on, too.
func TestNoLearner(t *testing.T) {
	server := startServer(t, natsserver.Config{})
	start(t, "--nats", server.URL()).await("waiting for a learner")
	start(t, "--nats", server.URL(), "--run", "later").await("waiting for a learner")
}

func TestBadCommandLines(t *testing.T) {
	for says, args := range map[string][]string{
		"--nats nats://host:port":            nil,
		"begins with nats://":                {"--nats", "http://127.0.0.1:4222"},
		"a password in the URL":              {"--nats", "nats://me:hush@127.0.0.1:1"},
		"credentials in nowhere: ":           {"--nats", "nats://127.0.0.1:1", "--credentials", "nowhere"},
		"at least one":                       {"--nats", "nats://127.0.0.1:1", "--slots", "0"},
		`unknown command "play"`:             {"play"},
		"unknown flag: --nast; --help lists": {"--nast", "nats://127.0.0.1:1"},
		`--log-level "loud": must be debug`:  {"--nats", "nats://127.0.0.1:1", "--log-level", "loud"},
		`--log-format "xml": must be text`:   {"--nats", "nats://127.0.0.1:1", "--log-format", "xml"},
		`--run: run: `:                       {"--nats", "nats://127.0.0.1:1", "--run", "a b"},
	} {
		p, want := start(t, args...), 2
		if strings.HasPrefix(says, "begins") || strings.HasPrefix(says, "credentials") {
			want = 1 // only found when it connects
		}
		if code := p.wait(); code != want || !strings.Contains(strings.Join(p.output, "\n"), says) {
			t.Errorf("actor %q: exit code %d, %q; want %d and %q", args, code, p.output, want, says)
		}
	}
}

func TestHelp(t *testing.T) {
	c := command()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SetArgs([]string{"--help"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--nats", "--run", "--task", "--slots", "--log-level", "Ctrl-C"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not mention %s:\n%s", want, out.String())
		}
	}
}
