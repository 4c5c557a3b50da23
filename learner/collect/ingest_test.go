package collect_test

import (
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
		Iteration: iteration, Hidden: shape.Hidden, Params: make([]float64, shape.NumParams()), Mean: identity.Mean, Std: identity.Std, Clip: 5,
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

func newPlant(t testing.TB, secure bool) *plant {
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
	p.collector, err = collect.New(deadline(t), conn, collect.Config{Run: "toy", Epoch: 1, Seed: seed, Task: large, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.collector.Close)
	h.Role = "senders"
	p.senders = h.start(t)
	return p
}

func (p *plant) collect(steps int) *collect.Batch {
	p.t.Helper()
	batch, err := p.collector.Collect(deadline(p.t), largePolicy(p.iteration), steps)
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
			batch := newPlant(t, secure).collect(3000)
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

// How fast a learner takes in the largest task's episodes from 16 slots over 8 connections: chunks, checksums, decoding,
// ledger and acknowledgements. Server, senders and learner share the machine's processors; what each of them uses is reported.
func BenchmarkIngest(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, steps := range []int{15_000, 150_000} {
			b.Run(fmt.Sprintf("tls=%v/batch=%d", secure, steps), func(b *testing.B) {
				p := newPlant(b, secure)
				p.collect(steps)
				pids := []int{os.Getpid(), p.server.cmd.Process.Pid, p.senders.cmd.Process.Pid}
				var before, after [3]time.Duration
				for i, pid := range pids {
					before[i] = processorTime(b, pid)
				}
				bytes, received := 0, 0
				for b.Loop() {
					batch := p.collect(steps)
					bytes += batch.Stats.Bytes
					received += batch.Steps + batch.Stats.Wasted
				}
				for i, pid := range pids {
					after[i] = processorTime(b, pid)
				}
				megabytes := float64(bytes) / 1e6
				b.ReportMetric(megabytes/b.Elapsed().Seconds(), "MB/s")
				b.ReportMetric(float64(received)/b.Elapsed().Seconds(), "steps/s")
				for i, name := range []string{"learner", "server", "senders"} {
					b.ReportMetric((after[i]-before[i]).Seconds()*1e3/megabytes, name+"-ms/MB")
				}
			})
		}
	}
}
