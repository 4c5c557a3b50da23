package device_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/learner/config"
	"github.com/dbqpg/dbqpg/learner/device"
)

// open opens a device and returns what it logged.
func open(t *testing.T, text string) (compute.Backend, string, error) {
	t.Helper()
	want, err := config.ParseDevice(text)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	backend, closeDevice, err := device.Open(want, slog.New(slog.NewTextHandler(&log, nil)))
	if err == nil {
		t.Cleanup(closeDevice)
	}
	return backend, log.String(), err
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

func TestAdviceIsForFailedDevicesOnly(t *testing.T) {
	if err := device.Advise(io.EOF, "resume"); err != io.EOF {
		t.Errorf("an error of another kind became %v", err)
	}
	failure := &compute.Failure{Err: errors.New("out of memory")}
	err := device.Advise(failure, "learner --resume")
	if !errors.Is(err, failure) || !strings.Contains(err.Error(), "out of memory") || !strings.Contains(err.Error(), "learner --resume") {
		t.Errorf("advice %q does not say what failed and how to go on", err)
	}
}
