package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// What learners and actors ask of a coordinator, and how often.
const (
	leaseTerm      = 3 * time.Second
	renewEvery     = leaseTerm / 3
	heartbeatEvery = 30 * time.Second
	commitEvery    = 5 * time.Second // an iteration: few are as short
)

// load is a cluster's clients at work.
type load struct {
	t    testing.TB
	urls []string
	end  context.Context

	mu        sync.Mutex
	latencies map[string][]time.Duration // of what was asked, by name
	waits     int                        // for a free run, in vain
	working   sync.WaitGroup
}

// timed does something and notes how long it took, under a name.
func (l *load) timed(name string, do func() error) {
	began := time.Now()
	err := do()
	took := time.Since(began)
	if l.end.Err() != nil {
		return
	}
	if err != nil {
		l.t.Errorf("%s: %v", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latencies[name] = append(l.latencies[name], took)
}

// every does something at an interval, beginning at some moment of the first, until the end.
func (l *load) every(interval time.Duration, phase float64, do func()) {
	l.working.Go(func() {
		wait := time.Duration(phase * float64(interval))
		for {
			select {
			case <-l.end.Done():
				return
			case <-time.After(wait):
			}
			began := time.Now()
			do()
			wait = max(0, interval-time.Since(began))
		}
	})
}

// heartbeats has a learner or an actor say that it is there.
func (l *load) heartbeats(c *client.Client, phase float64, beat client.Heartbeat) {
	l.every(heartbeatEvery, phase, func() {
		l.timed("heartbeat", func() error { return c.Heartbeat(l.end, beat) })
	})
}

// learner takes a run, and renews its lease and commits, at an interval; 0 is as fast as it can.
func (l *load) learner(name string, phase float64, interval time.Duration) {
	c := newClient(l.t, l.urls...)
	run, err := c.Take(l.end, registry.Take{Learner: name, TTL: leaseTerm.Seconds(), NATS: "nats://10.0.0.1:4222"})
	if err != nil {
		l.t.Fatal(err)
	}
	hold := registry.Hold{Run: run.Name, Epoch: run.Epoch}
	last := registry.Checkpoint{}
	l.every(interval, phase, func() {
		next := registry.Checkpoint{Iteration: last.Iteration + 1, SHA256: fmt.Sprintf("%064x", last.Iteration+1),
			Location: "checkpoints/" + run.Name}
		summary := map[string]float64{"return": 97.25, "return_std": 31.5, "episode_length": 812.125, "kl": 0.00972,
			"value_loss": 0.125, "nlml": 1.375}
		l.timed("commit", func() error {
			_, err := c.Commit(l.end, registry.Commit{Hold: hold, Previous: last.SHA256, Checkpoint: next,
				Steps: 15_000 * next.Iteration, Summary: summary})
			return err
		})
		last = next
	})
	l.every(renewEvery, phase, func() {
		l.timed("renew", func() error {
			_, err := c.Renew(l.end, client.Renewal{Hold: hold, TTL: leaseTerm.Seconds()})
			return err
		})
	})
	l.heartbeats(c, phase, client.Heartbeat{Learner: name, Run: run.Name})
}

// waiting acts as a worker without a run, which waits as learner/worker does.
func (l *load) waiting() {
	c := newClient(l.t, l.urls...)
	l.working.Go(func() {
		for l.end.Err() == nil {
			if _, err := c.Runs(l.end, client.Query{Free: true, Wait: time.Second}); err != nil && l.end.Err() == nil {
				l.t.Error(err)
				return
			}
			l.mu.Lock()
			l.waits++
			l.mu.Unlock()
		}
	})
}

// observe asks for lists now and then, as people do, and follows all changes.
func (l *load) observe() {
	c := newClient(l.t, l.urls...)
	l.every(2*time.Second, 0.5, func() {
		l.timed("list all runs", func() error { _, err := c.Runs(l.end, client.Query{}); return err })
		l.timed("list experiments", func() error { _, err := c.Experiments(l.end); return err })
		l.timed("backup", func() error { return c.Backup(l.end, io.Discard) })
	})
	watcher := newClient(l.t, l.urls...)
	l.working.Go(func() {
		for q := (client.Query{Wait: 30 * time.Second}); l.end.Err() == nil; {
			runs, err := watcher.Runs(l.end, q)
			if err != nil {
				if l.end.Err() == nil {
					l.t.Error(err)
				}
				return
			}
			if now := time.Now(); q.After > 0 {
				l.mu.Lock()
				for _, r := range runs.Runs {
					l.latencies["watch"] = append(l.latencies["watch"], now.Sub(r.Updated))
				}
				l.mu.Unlock()
			}
			q.After = runs.Index
		}
	})
}

// report prints the percentiles and what the nodes have used.
func (l *load) report(b *testing.B, nodes []*node, before []usage, elapsed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name := range l.latencies {
		names = append(names, name)
	}
	slices.Sort(names)
	var table strings.Builder
	for _, name := range names {
		all := l.latencies[name]
		slices.Sort(all)
		fmt.Fprintf(&table, "\n%-17s %7.1f/s   p50 %8v   p99 %8v", name, float64(len(all))/elapsed.Seconds(),
			all[len(all)/2].Round(100*time.Microsecond), all[len(all)*99/100].Round(100*time.Microsecond))
	}
	fmt.Fprintf(&table, "\n%-17s %7.1f/s", "waits for a run", float64(l.waits)/elapsed.Seconds())
	b.Log(table.String())
	processors, memory := 0.0, 0
	for i, n := range nodes {
		now := n.usage()
		processors += (now.processor - before[i].processor).Seconds() / elapsed.Seconds()
		memory = max(memory, now.memory)
	}
	b.ReportMetric(processors, "processors") // of all nodes
	b.ReportMetric(float64(memory)/1e6, "MB/node")
}

// usage is what a process has used of the processors, to hundredths of a second, and uses of memory, in bytes.
type usage struct {
	processor time.Duration
	memory    int
}

func (n *node) usage() (u usage) {
	n.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Cmd.Process.Pid))
	if err != nil {
		n.t.Skip("what processes use is read from /proc: ", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	number := func(field int) int {
		v, err := strconv.Atoi(fields[field])
		if err != nil {
			n.t.Fatal(err)
		}
		return v
	}
	u.processor = time.Duration(number(11)+number(12)) * 10 * time.Millisecond
	u.memory = number(21) * os.Getpagesize()
	return u
}

// cluster starts a cluster that knows ten thousand runs: a hundred that wait, and others that do too or are over.
func cluster(b *testing.B, size int, over bool) []*node {
	b.Helper()
	var nodes []*node
	if size == 1 {
		addresses := holdAddresses(b, 2)
		nodes = []*node{serve(b, "n1", b.TempDir(), addresses[0], addresses[1])}
		nodes[0].Expect("msg=ready")
	} else {
		nodes = serveThree(b)
	}
	c := newClient(b, nodes[0].url)
	seeds := make([]uint64, 990)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	began := time.Now()
	for i := range 11 {
		s := spec(fmt.Sprint("x", i), seeds...)
		if i == 0 {
			s.Seeds = seeds[:100]
		}
		if _, err := c.Submit(deadline(b), s); err != nil {
			b.Fatal(err)
		}
		if i > 0 && over {
			if _, err := c.Do(deadline(b), registry.Command{Steer: &registry.Steer{Name: s.Name,
				Action: registry.Cancel}}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Logf("10,000 runs of 11 experiments are submitted in %v", time.Since(began).Round(time.Millisecond))
	return nodes
}

// A coordinator with 10,000 runs, 100 learners and 1,000 actors at the rates at which they ask; with 100 learners more
// that wait for a run; and with learners that commit as fast as they can.
func BenchmarkThousandActors(b *testing.B) {
	for _, c := range []struct {
		name    string
		waiting int
		commits time.Duration
	}{{"usual", 0, commitEvery}, {"waiting=100", 100, commitEvery}, {"saturated", 0, 0}} {
		for _, size := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s/nodes=%d", c.name, size), func(b *testing.B) {
				nodes := cluster(b, size, c.waiting > 0)
				end, stop := context.WithCancel(context.Background())
				l := &load{t: b, end: end, latencies: map[string][]time.Duration{}}
				for _, n := range nodes {
					l.urls = append(l.urls, n.url)
				}
				var before []usage
				for _, n := range nodes {
					before = append(before, n.usage())
				}
				for i := range 100 {
					l.learner(fmt.Sprint("learner-", i), float64(i)/100, c.commits)
				}
				for i := range 1000 {
					l.heartbeats(newClient(b, l.urls...), float64(i)/1000,
						client.Heartbeat{Learner: fmt.Sprint("actor-", i), Slots: 1})
				}
				for range c.waiting {
					l.waiting()
				}
				l.observe()
				began := time.Now()
				for b.Loop() {
					time.Sleep(time.Second)
				}
				elapsed := time.Since(began)
				stop()
				l.working.Wait()
				l.report(b, nodes, before, elapsed)
				b.ReportMetric(float64(len(l.latencies["commit"]))/elapsed.Seconds(), "commits/s")
			})
		}
	}
}
