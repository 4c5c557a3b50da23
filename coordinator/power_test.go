package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/faultstest"
)

// Three nodes lose power, mostly all at once, again and again while learners commit: each commit that was answered is
// there in the end. Each node has a disk of its own, which keeps only what was synced.
func TestPowerFailures(t *testing.T) {
	t.Parallel()
	rng, failures := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(3, 200)
	disks := []*faultstest.Disk{faultstest.NewDisk(t), faultstest.NewDisk(t), faultstest.NewDisk(t)}
	var directories []string
	for _, disk := range disks {
		directories = append(directories, filepath.Join(disk.Path, "data"))
	}
	nodes := serveEach(t, make([][]string, 3), directories)
	w := startWorkload(t, nodes)
	all := 0
	for failure := range failures {
		w.awaitCommits(rng.IntN(100))
		hit := rng.Perm(3)
		if failure > 0 && rng.IntN(3) == 0 {
			hit = hit[:1+rng.IntN(2)]
		} else {
			all++
		}
		for _, i := range hit {
			nodes[i].Kill()
		}
		for _, i := range hit {
			disks[i].Cut()
			nodes[i].start()
		}
		w.answered()
		for _, i := range hit {
			if nodes[i].Expect("msg=ready"); strings.Contains(nodes[i].Log(), "the directory is empty") {
				t.Errorf("%s has lost its directory", nodes[i].id)
			}
		}
	}
	w.report("%d power failures, %d of all nodes at once", failures, all)
}
