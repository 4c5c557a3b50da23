package runs

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const (
	storeChildDirectory = "CHECKPOINT_TEST_DIRECTORY" // where a child process saves
	childLimit          = "CHECKPOINT_TEST_LIMIT"     // the largest file, in bytes, that it may write
	childNumbers        = 50_000                      // in a state: saving takes some milliseconds
)

// saveForever is the child process: it resumes from the newest checkpoint and prints each iteration it has saved.
func saveForever(directory string) error {
	if limit, err := strconv.ParseUint(os.Getenv(childLimit), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ) // so that writes beyond the limit fail like those to a full disk
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	store, err := OpenStore(directory, exampleSettings(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	state, err := store.Load()
	if err != nil {
		return err
	}
	next := uint64(0)
	if state != nil {
		next = state.Iteration + 1
	}
	for ; ; next++ {
		if err := store.Save(stateOf(next, childNumbers)); err != nil {
			return err
		}
		fmt.Println(next)
		if err := store.KeepBest(Best{Return: 1, Iteration: next}); err != nil {
			return err
		}
	}
}

func child(directory string, environment ...string) *exec.Cmd {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), append(environment, storeChildDirectory+"="+directory)...)
	return command
}

// A process that saves without pause is killed at random moments: the newest checkpoint is always whole, and never
// older than what the process had reported as saved.
func TestKilledWhileSaving(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	directory := t.TempDir()
	for range 12 {
		command := child(directory)
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(output)
		for range 1 + rng.IntN(3) {
			lines.Scan()
		}
		time.Sleep(time.Duration(rng.IntN(8000)) * time.Microsecond) // a random moment, not a wait
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		saved := lines.Text()
		for lines.Scan() {
			saved = lines.Text()
		}
		if err := command.Wait(); command.ProcessState.Exited() {
			t.Fatalf("the child ended before it was killed: %v", err)
		}

		reported, err := strconv.ParseUint(saved, 10, 64)
		if err != nil {
			t.Fatalf("the child reported %q", saved)
		}
		store, log := mustOpenStore(t, directory)
		state, err := store.Load()
		if err != nil || log.Len() > 0 {
			t.Fatalf("after a kill at iteration %d: %v %s", reported, err, log)
		}
		if state.Iteration < reported || state.Iteration > reported+1 {
			t.Fatalf("loaded iteration %d, but %d was reported as saved", state.Iteration, reported)
		}
		if want := stateOf(state.Iteration, childNumbers); !reflect.DeepEqual(state, want) {
			t.Fatalf("the state of iteration %d is not the one saved", state.Iteration)
		}
	}
}

// A process whose writes begin to fail half-way through a file says so and leaves the checkpoints it had.
func TestDiskFullHalfWay(t *testing.T) {
	directory := t.TempDir()
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 1, 2)
	output, err := child(directory, childLimit+"=100000").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the child ended with %v", err)
	}
	want := fmt.Sprintf("save the checkpoint of iteration 3: write %s.tmp: file too large\n", store.path(3))
	if string(output) != want {
		t.Errorf("the child said %q, want %q", output, want)
	}
	expectFiles(t, directory, "iteration-00000001.safetensors", "iteration-00000002.safetensors")
	expectLoad(t, store, 2)
}
