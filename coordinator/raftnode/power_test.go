package raftnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// busyVariable names the directory of a node to keep busy, in another process.
const busyVariable = "DBQPG_TEST_BUSY"

// TestBusyNode is that process: a node that takes a snapshot after every 25 commands, and says what it has answered.
func TestBusyNode(t *testing.T) {
	directory := os.Getenv(busyVariable)
	if directory == "" {
		t.Skip("it is for TestSnapshotsSurvivePowerFailures")
	}
	n := open(t, directory)
	for i := experiments(t, n); ; i++ {
		if r, err := n.Propose(t.Context(), submit(fmt.Sprint("e", i), 1)); err != nil || r.Refusal != nil {
			t.Fatal(r, err)
		}
		fmt.Println("answered", i+1)
	}
}

// experiments returns how many a node has, which are numbered.
func experiments(t *testing.T, n *Node) (count int) {
	t.Helper()
	if err := n.Read(deadline(t), func(s *registry.State) {
		for count = 0; s.Experiment(fmt.Sprint("e", count)) != nil; count++ {
		}
		if count != len(s.Experiments) {
			t.Errorf("of %d experiments e%d is missing", len(s.Experiments), count)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return count
}

// A node that takes snapshots and cuts its log all the time has everything that it has answered after a power failure.
func TestSnapshotsSurvivePowerFailures(t *testing.T) {
	disk := faultstest.NewDisk(t)
	directory := filepath.Join(disk.Path, "data")
	rng, failures := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(3, 60)
	answered := 0
	for range failures {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBusyNode$")
		cmd.Env = append(os.Environ(), busyVariable+"="+directory)
		busy := processtest.Start(t, cmd)
		busy.ExpectTimes(1+rng.IntN(150), "^answered")
		busy.Kill()
		answered += strings.Count(busy.Log(), "answered ")
		disk.Cut()
		n := open(t, directory)
		// one may not have been answered any more
		if there := experiments(t, n); there < answered || there > answered+1 {
			t.Errorf("%d experiments, of which %d were answered", there, answered)
		} else {
			answered = there
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept, _, err := openRecords(directory, "n1")
	if err != nil || kept.snapshot.Snapshot.Index < 25 {
		t.Errorf("no snapshot was taken: the test shows nothing (%v)", err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	faultstest.Report(t, "%d power failures of a node that takes a snapshot after every 25 commands; all %d "+
		"answered are there", failures, answered)
}
