package collect_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

// large has the largest task's episodes, 1.6 MB of 1,000 steps.
var large = sim.Spec{Name: "Large", ObservationDim: 376, ActionDim: 17, FrameSkip: 5, TimeLimit: 1000}

func largePolicy(iteration uint64) *proto.Policy {
	shape := policy.Shape{Observation: large.ObservationDim, Action: large.ActionDim, Hidden: []int{64, 64}}
	identity := policy.Identity(large.ObservationDim, 5)
	return &proto.Policy{
		Batch: iteration, Hidden: shape.Hidden, Params: make([]float64, shape.NumParams()), Mean: identity.Mean,
		Std: identity.Std, Clip: 5,
	}
}

// plant is a learner in this process, with a server and senders in others.
type plant struct {
	t               testing.TB
	conn            *bus.Conn
	collector       *collect.Collector
	server, senders *process
	iteration       uint64
}

// newPlant starts the processes; the senders may be others, too.
func newPlant(t testing.TB, secure bool, senders string) *plant {
	t.Helper()
	h := helper{Role: "server", Connections: 8, Slots: 2, Task: large}
	if secure {
		h.Credentials = filepath.Join(t.TempDir(), "credentials")
		if _, err := credentials.Create(h.Credentials, nil, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	p := &plant{t: t, server: h.start(t)}
	h.URL = p.server.ready
	conn, err := h.connect(deadline(t), "learner")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	p.conn = conn
	p.collector, err = collect.New(deadline(t), conn,
		collect.Config{Run: "toy", Epoch: 1, Seed: seed, Task: large, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.collector.Close)
	h.Role = senders
	if senders == "readers" { // of what is there
		if err := publish(p.conn, largePolicy(0)); err != nil {
			t.Fatal(err)
		}
	}
	p.senders = h.start(t)
	return p
}

func publish(conn *bus.Conn, policy *proto.Policy) error {
	policy.Run, policy.Task = "toy", large.Name
	data, err := proto.Marshal(nil, policy)
	if err != nil {
		return err
	}
	store, err := conn.Store(proto.PolicyBucket)
	if err == nil {
		_, err = store.Put(context.Background(), "toy", data, 0)
	}
	return err
}

// usage begins to count what the processes use of the processors; used returns it.
func (p *plant) usage() (used func() map[string]time.Duration) {
	pids := map[string]int{"learner": os.Getpid(), "server": p.server.cmd.Process.Pid,
		"senders": p.senders.cmd.Process.Pid}
	before := map[string]time.Duration{}
	for name, pid := range pids {
		before[name] = processorTime(p.t, pid)
	}
	return func() map[string]time.Duration {
		used := map[string]time.Duration{}
		for name, pid := range pids {
			used[name] = processorTime(p.t, pid) - before[name]
		}
		return used
	}
}

func (p *plant) collect(steps int) *collect.Batch {
	p.t.Helper()
	batch, err := p.collector.Collect(deadline(p.t), collect.Order{Policy: largePolicy(p.iteration), Steps: steps})
	if err != nil {
		p.t.Fatal(err)
	}
	p.iteration++
	return batch
}

// Episodes as large as the largest task's arrive whole, over TCP and over TLS.
func TestIngest(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			batch := newPlant(t, secure, "senders").collect(3000)
			for i, e := range batch.Episodes {
				if e.Ticket != ticket(0, uint64(i)) || e.Steps() != 1000 || e.Observations[375] == 0 {
					t.Errorf("episode %d is not that of its ticket", i)
				}
			}
			if s := batch.Stats; s.Refused+s.Rejected+s.Dropped != 0 || s.Bytes < 3*1_580_000 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// How fast a learner takes in the largest task's episodes from 16 slots over 8 connections: chunks, checksums,
// decoding, ledger and acknowledgements. Server, senders and learner share the machine's processors; what each of them
// uses is reported.
func BenchmarkIngest(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, steps := range []int{15_000, 150_000} {
			b.Run(fmt.Sprintf("tls=%v/batch=%d", secure, steps), func(b *testing.B) {
				p := newPlant(b, secure, "senders")
				p.collect(steps)
				used := p.usage()
				bytes, received := 0, 0
				for b.Loop() {
					batch := p.collect(steps)
					bytes += batch.Stats.Bytes
					received += batch.Steps + batch.Stats.Wasted
				}
				megabytes := float64(bytes) / 1e6
				b.ReportMetric(megabytes/b.Elapsed().Seconds(), "MB/s")
				b.ReportMetric(float64(received)/b.Elapsed().Seconds(), "steps/s")
				for name, time := range used() {
					b.ReportMetric(time.Seconds()*1e3/megabytes, name+"-ms/MB")
				}
			})
		}
	}
}

// How fast 8 actors read the largest task's policy, 240 KB, from the server's store, and what each reading uses.
func BenchmarkReadPolicy(b *testing.B) {
	p := newPlant(b, false, "readers")
	reads := 0
	wiretap, err := p.conn.Subscribe("$JS.API.DIRECT.GET.>", func(bus.Message) { reads++ })
	if err != nil {
		b.Fatal(err)
	}
	used := p.usage()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	all := used()
	wiretap.Close()
	b.ReportMetric(float64(reads)/b.Elapsed().Seconds(), "reads/s")
	b.ReportMetric(all["server"].Seconds()*1e6/float64(reads), "server-us/read")
	b.ReportMetric(all["senders"].Seconds()*1e6/float64(reads), "actor-us/read")
}
