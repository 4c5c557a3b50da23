package main_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// endless is a learner that goes on for as long as the test disturbs it.
type endless struct {
	*process
	t         *testing.T
	e         *example
	directory string
	done      int // iterations
}

// learnUntilStopped starts a learner at a server; its actors are elsewhere.
func learnUntilStopped(t *testing.T, e *example, url string) *endless {
	t.Helper()
	directory := newDirectory(t)
	learner := start(t, "learner", e.externally(directory, url, "--actors", "0", "--iterations", "1000000")...)
	return &endless{learner, t, e, directory, 0}
}

// next waits until the learner has done another iteration than any until now.
func (l *endless) next() {
	l.t.Helper()
	l.iterations(strings.Count(l.Log(), `msg="iteration done"`) + 1)
}

// stop ends the learner. An undisturbed one then trains for as many iterations, and must come to the same bits,
// counters and table: no ticket was lost, and none counted twice. It returns the hash of what was learned.
func (l *endless) stop() (hash string) {
	l.t.Helper()
	l.Signal(syscall.SIGTERM)
	if status := l.Wait(); status != 130 {
		l.t.Fatalf("the learner ended with status %d", status)
	}
	l.done = committed(l.t, l.directory)
	if l.done < 1 {
		l.t.Fatal("nothing was learned: the test shows nothing")
	}
	got, want := l.e.requireUndisturbed(l.t, l.directory, l.done)
	if hash = hashOf(got.state); hash != hashOf(want.state) {
		l.t.Errorf("hash %s, undisturbed it is %s", hash, hashOf(want.state))
	}
	return hash
}

// requireUndisturbed fails unless a run has the outcome of an undisturbed learner after the same number of iterations.
func (e *example) requireUndisturbed(t *testing.T, directory string, iterations int) (got, want outcome) {
	t.Helper()
	undisturbed := newDirectory(t)
	start(t, "learner", e.arguments(undisturbed, "--actors", "2", "--iterations",
		strconv.Itoa(iterations))...).Succeed()
	want, err := readOutcome(undisturbed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = readOutcome(directory); err != nil {
		t.Fatal(err)
	}
	requireOutcome(t, got, want)
	return got, want
}

// hashOf returns the beginning of the SHA-256 of all that a state holds.
func hashOf(s *runs.State) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s.Arrays)) {
		io.WriteString(h, name)
		for _, x := range s.Arrays[name] {
			h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
	}
	return fmt.Sprintf("%.8x", h.Sum(nil))
}

// Four actors are killed, one after the other and again and again, and replaced at once, while messages arrive late,
// twice and out of order on their way from and to actors and learner.
func TestManyKilledActors(t *testing.T) {
	t.Parallel()
	seed, kills := faultstest.Seed(t), faultstest.Count(8, 500)
	rng := faultstest.Rand(seed, 0)
	_, url := startServer(t, "0")
	proxy := faultstest.NewProxy(t, url, faultstest.Rand(seed, 1), 0.1, 0.1, 200*time.Millisecond)
	actors := make([]*process, 4)
	begin := func(i int) {
		actors[i] = start(t, "actor", "--nats", proxy.URL(), "--run", examples[1].run, "--slots", "1")
	}
	for i := range actors {
		begin(i)
	}
	learner := learnUntilStopped(t, examples[1], proxy.URL())
	learner.iterations(1)
	for range kills {
		// a random moment, not a wait
		time.Sleep(200*time.Millisecond + time.Duration(rng.Int64N(int64(800*time.Millisecond))))
		i := rng.IntN(len(actors))
		actors[i].Kill()
		begin(i)
	}
	hash := learner.stop()
	faultstest.Report(t, "%d actors killed; %v; %d iterations end with hash %s, as undisturbed", kills, proxy,
		learner.done, hash)
}

// playing are two actors whose accepted episodes can be counted.
type playing struct {
	t      *testing.T
	actors []*process
}

func startPlaying(t *testing.T, e *example, url string) *playing {
	t.Helper()
	p := &playing{t: t}
	for range 2 {
		p.actors = append(p.actors, start(t, "actor", "--nats", url, "--run", e.run, "--slots", "1", "--metrics-listen",
			"127.0.0.1:0"))
	}
	return p
}

// accepted counts the episodes that the learner has taken from them.
func (p *playing) accepted() (n int) {
	p.t.Helper()
	for _, actor := range p.actors {
		n += int(scrape(p.t, actor.metricsURL())["dbqpg_actor_episodes_total{accepted}"])
	}
	return n
}

// again waits until another episode is accepted, and returns how long that took.
func (p *playing) again() time.Duration {
	p.t.Helper()
	began := time.Now()
	for before := p.accepted(); p.accepted() == before; {
		if time.Since(began) > patience {
			p.t.Fatalf("no episode in %v", patience)
		}
		time.Sleep(10 * time.Millisecond) // between two questions to a process that tells of nothing by itself
	}
	return time.Since(began)
}

// The NATS server is killed again and again, is away for a while and comes back with an empty memory.
func TestManyKilledServers(t *testing.T) {
	t.Parallel()
	seed, kills := faultstest.Seed(t), faultstest.Count(3, 100)
	rng := faultstest.Rand(seed, 0)
	shortest, longest := time.Millisecond, 300*time.Millisecond // that it is away for
	if faultstest.Long() {
		shortest, longest = time.Second, 30*time.Second
	}
	e := examples[1]
	port := strconv.Itoa(processtest.Port(t))
	server, url := startServer(t, port)
	actors := startPlaying(t, e, url)
	learner := learnUntilStopped(t, e, url)
	learner.iterations(1)
	var took []time.Duration
	for range kills {
		time.Sleep(time.Duration(rng.Int64N(int64(time.Second)))) // a random moment, not a wait
		server.Kill()
		time.Sleep(shortest + time.Duration(rng.Int64N(int64(longest-shortest)))) // it is away
		server, _ = startServer(t, port)
		took = append(took, actors.again())
	}
	learner.next()
	hash := learner.stop()
	faultstest.Report(t, "%d NATS servers killed, away for %v to %v; collecting again after %s; %d iterations "+
		"end with hash %s, as undisturbed",
		kills, shortest, longest, spread(took), learner.done, hash)
}

// Actors whose arithmetic deviates come again and again, and others that hold their tickets. The run goes on, and honest
// actors play for it to the end. The deviating ones are told why they are refused; what they sent before a replay found
// them may be in the run (docs/security.md), so that its bits are not compared.
func TestManyHostileActors(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the C library has no other arithmetic to choose")
	}
	seed, rounds := faultstest.Seed(t), faultstest.Count(3, 200)
	rng := faultstest.Rand(seed, 0)
	e := examples[0]
	_, url := startServer(t, "0")
	honest := startPlaying(t, e, url)
	learner := learnUntilStopped(t, e, url)
	learner.iterations(1)
	actor := func(environment ...string) *process {
		cmd := exec.Command(filepath.Join(programs, "actor"), "--nats", url, "--run", e.run, "--slots", "2")
		cmd.Env = append(os.Environ(), environment...)
		return startCommand(t, cmd)
	}
	for range rounds {
		deviating := actor("GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-AVX2")
		deviating.MayFail()
		holding := actor()
		holding.Expect("found a run")
		time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond)))) // a random moment, not a wait
		holding.Signal(syscall.SIGSTOP)
		deviating.Expect("refuses this actor")
		learner.next()
		honest.again()
		holding.Kill()
	}
	learner.Signal(syscall.SIGTERM)
	if status := learner.Wait(); status != 130 {
		t.Errorf("the learner ended with status %d", status)
	}
	faultstest.Report(t, "%d deviating actors shut out, as many holding ones; %d iterations done", rounds,
		committed(t, learner.directory))
}

// spread returns the median, two percentiles and the maximum.
func spread(times []time.Duration) string {
	slices.Sort(times)
	at := func(i int) time.Duration { return times[i].Round(time.Millisecond) }
	n := len(times)
	return fmt.Sprintf("%v (median), %v (90 %%), %v (99 %%), %v (longest)", at(n/2), at(n*9/10), at(n*99/100), at(n-1))
}
