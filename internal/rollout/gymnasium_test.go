package rollout_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim/external"
)

// BenchmarkGymnasium compares playing Gymnasium's Hopper by a task file, policy included, with Gymnasium's own loop,
// which has no policy (python/benchmarks/loop.py), in turns so that both see the same machine. Metrics, by the median
// turn: steps a second of processor time of each, those of this process and of the environments' together, and the
// first as a share of the second.
func BenchmarkGymnasium(b *testing.B) {
	root, err := filepath.Abs("../..")
	if err != nil {
		b.Fatal(err)
	}
	python := filepath.Join(root, ".deps/python/bin/python")
	if _, err := os.Stat(python); err != nil {
		b.Skipf("there is no Python environment, which make python sets up: %v", err)
	}
	const name = "Hopper-v5"
	for _, k := range []int{1, 8} {
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			f, err := external.Parse(fmt.Appendf(nil,
				"{name: Gymnasium, observations: 11, actions: 3, low: [-1, -1, -1], high: [1, 1, 1], steps: 1000, "+
					"environments: %d, command: [%q, -m, dbqpg.environment, %q]}", k, python, "gymnasium:"+name))
			if err != nil {
				b.Fatal(err)
			}
			compare(b, f, exec.Command(python, filepath.Join(root, "python/benchmarks/loop.py"), name))
		})
	}
}

func compare(b *testing.B, f *external.File, loop *exec.Cmd) {
	const turn = 2000 // steps
	environments, err := external.New(nil, f)
	if err != nil {
		b.Fatal(err)
	}
	var players []*rollout.Player
	for range f.Environments {
		env, err := environments.New(f.Spec().Name)
		if err != nil {
			b.Fatal(err)
		}
		defer env.Close()
		players = append(players, rollout.NewPlayer(env))
	}
	clock := processorTime(b)
	own := startLoop(b, loop)
	own(turn) // both have warmed up
	play(b, players, turn)
	var bridged, gymnasium, shares []float64
	for b.Loop() {
		start := clock()
		steps := play(b, players, turn)
		x := float64(steps) / (clock() - start).Seconds()
		y := turn / own(turn)
		bridged, gymnasium, shares = append(bridged, x), append(gymnasium, y), append(shares, x/y)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(bridged), "steps/s")
	b.ReportMetric(median(gymnasium), "gymnasium_steps/s")
	b.ReportMetric(median(shares), "of_gymnasium")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// play has the players play episodes at the same time, until they have played so many steps.
func play(b *testing.B, players []*rollout.Player, least int64) int64 {
	shape := policy.Shape{Observation: 11, Action: 3, Hidden: policy.DefaultHidden()}
	params := shape.Init(streams.New(1, streams.Policy), nil)
	var index atomic.Uint64
	var steps atomic.Int64
	var group errgroup.Group
	for _, player := range players {
		actor, err := policy.NewActor(shape, params, policy.Identity(11, 5))
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() error {
			for steps.Load() < least {
				e, err := player.Play(actor, proto.Ticket{Run: "benchmark", Index: index.Add(1)},
					func() bool { return false })
				if err != nil {
					return err
				}
				steps.Add(int64(e.Steps()))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return steps.Load()
}

// processorTime returns the clock of the processor time of this process and of those that it has started so far.
func processorTime(b *testing.B) func() time.Duration {
	clocks := []int32{unix.CLOCK_PROCESS_CPUTIME_ID}
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		b.Fatal(err)
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for _, child := range strings.Fields(string(children)) {
			var pid int32
			if _, err := fmt.Sscan(child, &pid); err != nil {
				b.Fatal(err)
			}
			clocks = append(clocks, ^pid<<3|2) // the process's clock, as clock_getcpuclockid(3) has it
		}
	}
	return func() (sum time.Duration) {
		for _, clock := range clocks {
			var t unix.Timespec
			if err := unix.ClockGettime(clock, &t); err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(t.Nano())
		}
		return sum
	}
}

// startLoop starts Gymnasium's own loop, and returns a function that takes steps and returns how many seconds of
// processor time that took.
func startLoop(b *testing.B, cmd *exec.Cmd) func(steps int) float64 {
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	lines := bufio.NewReader(out)
	return func(steps int) (seconds float64) {
		if _, err := io.WriteString(in, fmt.Sprintln(steps)); err != nil {
			b.Fatal(err)
		}
		if _, err := fmt.Fscanln(lines, &seconds); err != nil {
			b.Fatal(err)
		}
		return seconds
	}
}
