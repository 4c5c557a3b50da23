package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
)

const (
	childDirectory  = "RUNDIR_TEST_DIRECTORY" // of a child process's run
	childIterations = 100
)

func TestMain(m *testing.M) {
	if directory := os.Getenv(storeChildDirectory); directory != "" {
		if err := saveForever(directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if directory := os.Getenv(childDirectory); directory != "" {
		if err := trainChild(directory); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// trainChild trains a whole run, resuming where one that was killed stopped.
func trainChild(directory string) error {
	s, err := configtest.Authors("Swimmer-v2", config.NPG, config.UAPG)
	if err != nil {
		return err
	}
	s.RunDir, s.Resume = directory, config.ResumeAuto
	run, state, err := Open(&s, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	defer run.Close()
	return train(run, state, childIterations)
}

// A run killed with SIGKILL at random moments, and resumed until it is through, leaves what an undisturbed one leaves.
func TestKilledRunEndsLikeAnUndisturbedOne(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	undisturbed := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, undisturbed, childIterations)

	directory := filepath.Join(t.TempDir(), "run")
	kills, midway := 0, 0
	for {
		var complaints strings.Builder
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), childDirectory+"="+directory)
		command.Stderr = &complaints
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rng.IntN(60_000))*time.Microsecond, func() { _ = command.Process.Kill() })
		err := command.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		if kills++; command.ProcessState.Exited() || complaints.Len() > 0 {
			t.Fatalf("after %d kills: %v: %s", kills, err, complaints.String())
		}
		if _, err := os.Stat(filepath.Join(directory, "checkpoints", "best.safetensors")); err == nil {
			midway++
		}
	}
	if t.Logf("%d kills, %d of them after the first checkpoint", kills, midway); midway == 0 {
		t.Error("no kill hit a run that was under way: the test shows nothing")
	}

	expectEqual(t, "progress.csv", withoutSeconds(read(t, directory, "progress.csv")), withoutSeconds(read(t, undisturbed.RunDir, "progress.csv")))
	expectEqual(t, "evaluations.csv", read(t, directory, "evaluations.csv"), read(t, undisturbed.RunDir, "evaluations.csv"))
	expectEqual(t, "config.yaml", read(t, directory, "config.yaml"), read(t, undisturbed.RunDir, "config.yaml"))
	for _, name := range []string{"", stepsName} {
		expectEqual(t, "TensorBoard's steps", eventSteps(t, filepath.Join(directory, name)), eventSteps(t, filepath.Join(undisturbed.RunDir, name)))
	}
	for _, name := range []string{"iteration-00000099.safetensors", "iteration-00000100.safetensors", "best.safetensors"} {
		expectEqual(t, name, stateWithoutElapsed(t, directory, name), stateWithoutElapsed(t, undisturbed.RunDir, name))
	}
	for _, name := range []string{"", "checkpoints"} {
		if left, _ := filepath.Glob(filepath.Join(directory, name, "*.tmp")); len(left) > 0 {
			t.Errorf("left over: %q", left)
		}
	}
}

// withoutSeconds drops the columns of the wall clock.
func withoutSeconds(table string) string {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	names := strings.Split(lines[0], ",")
	var out strings.Builder
	for _, line := range lines {
		for i, field := range strings.Split(line, ",") {
			if !strings.HasPrefix(names[i], "seconds_") {
				out.WriteString(field + ",")
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func stateWithoutElapsed(t *testing.T, directory, name string) State {
	t.Helper()
	state, _, err := Decode([]byte(read(t, directory, "checkpoints", name)))
	if err != nil {
		t.Fatal(err)
	}
	state.Elapsed = 0
	return *state
}

// eventSteps returns the steps of all events with scalars in the event files, in the order in which they are read.
func eventSteps(t *testing.T, directory string) []int64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "events.out.tfevents.*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("event files %q, %v", paths, err)
	}
	var steps []int64
	for _, path := range paths {
		for file := read(t, path); len(file) > 0; {
			length := binary.LittleEndian.Uint64([]byte(file[:8]))
			event := []byte(file[12 : 12+length])
			file = file[12+length+4:]
			var step int64
			scalars := false
			for len(event) > 0 {
				number, kind, n := protowire.ConsumeTag(event)
				size := protowire.ConsumeFieldValue(number, kind, event[n:])
				if n < 0 || size < 0 {
					t.Fatalf("%s holds an event that cannot be read", path)
				}
				if number == 2 {
					v, _ := protowire.ConsumeVarint(event[n:])
					step = int64(v)
				}
				scalars = scalars || number == 5 && !bytes.Contains(event[:n+size], []byte("_hparams_")) && !bytes.Contains(event[:n+size], []byte("yaml"))
				event = event[n+size:]
			}
			if scalars {
				steps = append(steps, step)
			}
		}
	}
	return steps
}
