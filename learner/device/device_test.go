package device_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/device"
)

// open opens a device and returns what it logged.
func open(t *testing.T, text string) (compute.Backend, string, error) {
	t.Helper()
	var want config.Device
	if err := want.Set(text); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	opened, err := device.Open(want)
	if err != nil {
		return nil, "", err
	}
	t.Cleanup(opened.Close)
	opened.Announce(slog.New(slog.NewTextHandler(&log, nil)))
	return opened.Backend, log.String(), nil
}

func TestOpenSaysWhatComputesAndWhy(t *testing.T) {
	for _, text := range []string{"cpu", "auto"} {
		backend, log, err := open(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(log, "\n") != 1 || !strings.Contains(log, backend.Name()) {
			t.Errorf("--device %s logged %q, want one line that names %s", text, log, backend.Name())
		}
	}
}

// full is a device's error of running out of memory.
type full struct{ available int64 }

func (full) Error() string { return "out of memory" }

func (f full) Available() int64 { return f.available }

func (f full) TooLarge() bool { return f.available < 1<<30 }

func TestTooLarge(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("iteration 2: %w", &compute.Failure{Err: err}) }
	for err, want := range map[error]bool{
		wrap(full{1 << 20}): true, wrap(full{10 << 30}): false, wrap(io.EOF): false, io.EOF: false,
	} {
		if device.TooLarge(err) != want {
			t.Errorf("%v: too large is %v", err, !want)
		}
	}
}

func TestAdviceIsForFailedDevicesOnly(t *testing.T) {
	if err := device.Advise(io.EOF, "resume"); !errors.Is(err, io.EOF) {
		t.Errorf("an error of another kind became %v", err)
	}
	for cause, batch := range map[error]bool{full{10 << 30}: true, io.EOF: false} {
		failure := &compute.Failure{Err: cause}
		err := device.Advise(failure, "learner --resume")
		if !errors.Is(err, failure) || !strings.Contains(err.Error(), cause.Error()) ||
			!strings.Contains(err.Error(), "learner --resume") {
			t.Errorf("advice %q does not say what failed and how to go on", err)
		}
		if strings.Contains(err.Error(), "--batch") != batch {
			t.Errorf("the advice for %v is %q", cause, err)
		}
		if err := device.Advise(failure, ""); strings.HasSuffix(err.Error(), "; ") {
			t.Errorf("without a clause the advice is %q", err)
		}
	}
}
