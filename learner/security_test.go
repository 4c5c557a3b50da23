package main_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// With credentials, over TLS, learner and actor learn the same bits as without. No secret is in their logs, in
// config.yaml, or among their arguments and environment.
func TestCredentials(t *testing.T) {
	forEachExample(t, func(t *testing.T, e *example) {
		files := newCredentials(t)
		directory := newDirectory(t)
		learner := start(t, "learner", e.arguments(directory, "--actors", "0", "--credentials",
			filepath.Join(files, "learner"))...)
		url := learner.Expect(`--nats (tls://\S*\d) --credentials DIR`)[1]
		stranger := start(t, "actor", "--nats", strings.Replace(url, "tls://", "nats://", 1))
		stranger.Expect("^actor: .*give --credentials DIR")
		if status := stranger.Wait(); status != 1 {
			t.Errorf("the stranger ended with status %d", status)
		}
		actor := start(t, "actor", "--nats", url, "--slots", "1", "--credentials", filepath.Join(files, "actor"))
		learner.iterations(1)
		shown := processFiles(t, learner) + processFiles(t, actor)
		learner.Succeed()
		e.requireReference(t, directory)

		settings, err := os.ReadFile(filepath.Join(directory, config.FileName))
		if err != nil || !strings.Contains(string(settings), filepath.Join(files, "learner")) {
			t.Errorf("config.yaml: %v\n%s", err, settings)
		}
		shown += string(settings) + learner.Log() + actor.Log() + stranger.Log()
		for _, secret := range secrets(t, files) {
			if strings.Contains(shown, secret) {
				t.Errorf("%q is shown", secret)
			}
		}
	})
}

func newCredentials(t *testing.T) (directory string) {
	t.Helper()
	directory = filepath.Join(t.TempDir(), "credentials")
	if _, err := credentials.Create(directory, nil, 365*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	return directory
}

// processFiles returns what the system shows of a process: its arguments and its environment.
func processFiles(t *testing.T, p *process) (shown string) {
	t.Helper()
	for _, name := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Cmd.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		shown += string(data)
	}
	return shown
}

// secrets returns every line of every secret.
func secrets(t *testing.T, directory string) (lines []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*/*-key.pem"))
	if err != nil || len(paths) < 5 {
		t.Fatalf("%q, %v", paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// With credentials a learner takes in other machines; without, it refuses to listen for them, unless told to.
func TestListenForOthers(t *testing.T) {
	t.Parallel()
	e := examples[1]
	files := newCredentials(t)
	for _, more := range [][]string{{"--credentials", filepath.Join(files, "learner")}, {"--insecure-listen"}} {
		directory := newDirectory(t)
		learner := start(t, "learner", e.arguments(directory,
			append(more, "--listen", "0.0.0.0:"+strconv.Itoa(processtest.Port(t)), "--actors", "1")...)...)
		learner.Expect("actors can join")
		learner.Succeed()
		e.requireReference(t, directory)
	}
	wrong := start(t, "learner", e.arguments(newDirectory(t), "--credentials", filepath.Join(files, "actor"))...)
	wrong.fail("they are for role actor, required is learner")
}

// An actor with another control cost compiled in is refused, and says so, as does the learner; the run goes on as if it
// had never come.
func TestOtherBuild(t *testing.T) {
	t.Parallel()
	source, err := filepath.Abs("../sim/tasks/swimmer.go")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(code, []byte("controlCost = 1e-4"), []byte("controlCost = 2e-4"), 1)
	if bytes.Equal(code, other) {
		t.Fatal("the control cost is not where it was")
	}
	made := t.TempDir()
	replaced, overlay, program := filepath.Join(made, "swimmer.go"), filepath.Join(made, "overlay.json"),
		filepath.Join(made, "actor")
	files := map[string]string{replaced: string(other), overlay: fmt.Sprintf(`{"Replace":{%q:%q}}`, source, replaced)}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program,
		"../actor").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e := examples[0]
	directory := newDirectory(t)
	learner := start(t, "learner", e.arguments(directory, "--actors", "0")...)
	url := learner.Expect(`--nats (nats://\S*\d)`)[1]
	actor := processtest.Start(t, exec.Command(program, "--nats", url, "--run", e.run, "--slots", "1"))
	actor.MayFail()
	actor.Expect("^actor: the learner of run .* computes Swimmer-v2 otherwise")
	learner.Expect("refused a message.* computes Swimmer-v2 otherwise")
	start(t, "actor", "--nats", url, "--slots", "1")
	learner.Succeed()
	e.requireReference(t, directory)
}

// A stranger with an actor's key that asks for tickets under many names, spoils them, and floods the learner with
// noise can neither end a run nor change a bit of it.
func TestHostileActor(t *testing.T) {
	forEachExample(t, func(t *testing.T, e *example) {
		files := newCredentials(t)
		directory := newDirectory(t)
		learner := start(t, "learner", e.arguments(directory, "--actors", "1", "--credentials",
			filepath.Join(files, "learner"))...)
		url := learner.Expect(`--nats (tls://\S*\d) --credentials DIR`)[1]
		learner.iterations(1)
		h := &hostile{t: t, conn: connectAs(t, filepath.Join(files, "actor"), url), run: e.run,
			digest: digestOf(t, e.run)}
		ctx, stop := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() { h.spoil(ctx) })
		work.Go(func() { h.flood(ctx) })
		learner.Succeed()
		stop()
		work.Wait()
		t.Logf("%d tickets spoilt", h.spoilt)
		if h.spoilt == 0 {
			t.Error("no ticket was ever spoilt: the test shows nothing")
		}
		e.requireReference(t, directory)
	})
}

func connectAs(t *testing.T, directory, url string) *bus.Conn {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	own, err := credentials.Load(directory, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := bus.Connect(ctx, url, bus.ConnConfig{Log: quiet, Identity: own.Identity()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

type hostile struct {
	t      *testing.T
	conn   *bus.Conn
	run    string
	digest string // as an honest actor has it
	spoilt int
}

// digestOf returns the digest of a run's task.
func digestOf(t *testing.T, run string) string {
	t.Helper()
	task, _, _ := strings.Cut(run, "/")
	env, err := tasks.New(task)
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	digest, err := rollout.Digest(env)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// spoil asks for tickets under ever new names. It sends noise for one, and says of the next that it fails.
func (h *hostile) spoil(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		slot := proto.Slot{Actor: "stranger-" + strconv.Itoa(i/2%1000)}
		reply := h.request(ctx, &proto.Ask{Slot: slot, Digest: h.digest})
		if reply == nil || reply.Next == nil {
			continue
		}
		if i%2 == 0 {
			reply = h.request(ctx, &proto.Chunk{Slot: slot, Ticket: *reply.Next, Parts: 1, Data: []byte("noise")})
		} else {
			reply = h.request(ctx, &proto.Return{Slot: slot, Ticket: *reply.Next, Reason: "it fails, believe me"})
		}
		if reply != nil {
			h.spoilt++
		}
	}
}

// request returns the learner's answer, or nil if there was none.
func (h *hostile) request(ctx context.Context, m proto.Request) *proto.Reply {
	data, err := proto.Marshal(nil, m)
	if err != nil {
		h.t.Error(err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	reply := new(proto.Reply)
	if data, err = h.conn.Request(ctx, proto.SubjectsOf(h.run).Request(1, m, h.conn.Member()), data); err != nil ||
		proto.Unmarshal(data, reply) != nil {
		return nil
	}
	return reply
}

// flood sends bursts of noise on every subject that an actor may publish to.
func (h *hostile) flood(ctx context.Context) {
	noise := bytes.Repeat([]byte{0xdf, 0xff}, 512)
	subjects := proto.SubjectsOf(h.run)
	for ctx.Err() == nil {
		for range 50 {
			for _, m := range []proto.Request{new(proto.Ask), new(proto.Offer), new(proto.Chunk), new(proto.Return)} {
				_ = h.conn.Publish(subjects.Request(1, m, h.conn.Member()), noise) // until the server is gone
			}
		}
		// The next burst when the learner has taken in this one.
		h.request(ctx, &proto.Return{Slot: proto.Slot{Actor: "x"}, Ticket: proto.Ticket{Run: h.run}})
	}
}
