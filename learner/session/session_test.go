package session

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A session that ends, by itself or because it is told to, leaves nothing behind.
func TestTrainEnds(t *testing.T) {
	for _, iterations := range []string{"1", "1000000"} {
		directory := filepath.Join(t.TempDir(), "run")
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		loader := config.NewLoader(flags)
		arguments := "--env Hopper-v2 --batch 300 --rank 20 --actors 1 --listen 127.0.0.1:0 --iterations " + iterations + " --run-dir " + directory
		if err := flags.Parse(strings.Fields(arguments)); err != nil {
			t.Fatal(err)
		}
		settings, err := loader.Load(nil)
		if err != nil {
			t.Fatal(err)
		}
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		log := slog.New(slog.NewTextHandler(cancelAt{cancel}, nil)) // at the first iteration's line
		err = Train(ctx, Config{Settings: settings, Display: runs.NewDisplay(null), Log: log})
		if iterations == "1" && err != nil {
			t.Error(err)
		}
	}
}

// Whose device fails is told how the run goes on: here, or, for a leased one, whose directory is removed, elsewhere.
func TestGoOn(t *testing.T) {
	const resume = "go run ./learner --run-dir runs/x --resume"
	lost := errors.New("lost")
	if said := (&session{}).goOn(lost, resume); !strings.Contains(said, resume) || !strings.Contains(said, "--device cpu") {
		t.Error(said)
	}
	if said := (&session{Config: Config{Lease: &Lease{}}}).goOn(lost, resume); said != "" {
		t.Error(said)
	}
	if said := (&session{Config: Config{Lease: &Lease{}}}).goOn(tooLarge{}, resume); strings.Contains(said, "--") || !strings.Contains(said, "smaller batch") {
		t.Error(said)
	}
}

// A shut-out names the iterations that have an actor's episodes, and the command that goes back to the newest checkpoint
// before them, or starts anew.
func TestGoBack(t *testing.T) {
	directory := t.TempDir()
	if err := os.Mkdir(runs.Checkpoints(directory), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, iteration := range []uint64{10, 19, 20} {
		if err := os.WriteFile(filepath.Join(runs.Checkpoints(directory), runs.FileName(iteration)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	local := &session{Config: Config{Settings: new(config.Settings)}}
	local.Settings.RunDir = directory
	leased := &session{Config: Config{Settings: local.Settings, Lease: &Lease{Run: "x/y"}}}
	for _, test := range []struct {
		session     *session
		first, last uint64
		want, not   string
	}{
		{local, 12, 21, "iterations 11 to 20 have its episodes", "iteration-00000010"}, // that of iteration 11 is gone
		{local, 12, 21, "iteration-00000019.safetensors " + runs.Checkpoints(directory) + "/iteration-00000020", "--force"},
		{local, 12, 21, "--resume", "--force"},
		{local, 20, 21, "rm " + runs.Checkpoints(directory) + "/iteration-00000020.safetensors; ", "iteration-00000019"},
		{local, 3, 21, "--force", "--resume"},
		{leased, 12, 21, "coordinator reset x/y --to 10", "rm "},
		{leased, 0, 21, "iterations 0 to 20 have its episodes; stop the run, then: coordinator reset x/y", "--to"},
	} {
		if said := test.session.goBack(test.first, test.last); !strings.Contains(said, test.want) ||
			strings.Contains(said, test.not) {
			t.Errorf("batches %d to %d: %s", test.first, test.last, said)
		}
	}
}

// tooLarge is the error of a device that is too small.
type tooLarge struct{ error }

func (tooLarge) TooLarge() bool { return true }

// cancelAt is a log that ends its reader's patience with the first iteration that is done.
type cancelAt struct{ cancel context.CancelFunc }

func (c cancelAt) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "iteration done") {
		c.cancel()
	}
	return len(line), nil
}
