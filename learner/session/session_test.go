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
