package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
)

// complete trains and publishes all runs, several at a time, and calls completed after each. It skips complete runs and
// resumes interrupted ones. A run that fails does not stop the others.
func complete(ctx context.Context, j *job, trials []*trial, parallel int, completed func() error) error {
	var group errgroup.Group
	group.SetLimit(parallel)
	var mu sync.Mutex // one page is written at a time
	var failed []error
	for i, t := range trials {
		if t.done == t.total() {
			if err := t.publish(); err != nil {
				return errors.Join(err, group.Wait())
			}
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			j.log.Info("training", "run", t.name, "number", i+1, "of", len(trials), t.settings.Unit(), t.total())
			err := t.train(ctx, max(1, device.Cores()/parallel))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = t.publish()
			}
			if err == nil {
				err = completed()
			}
			if err != nil && ctx.Err() == nil {
				failed = append(failed, fmt.Errorf("%s: %w", t.name, err))
				j.log.Error("failed", "run", t.name, "error", err)
			}
			return nil
		})
	}
	_ = group.Wait() // its errors are in failed
	return errors.Join(append(failed, ctx.Err())...)
}

// grace is the time that a run is given to end when it is interrupted.
const grace = time.Minute

// train trains the run by `study train` in a process of its own with that many threads, whose log is beside the run's
// directory. It does not outlive this process, and is interrupted when ctx is done: both leave a run to be resumed.
func (t *trial) train(ctx context.Context, threads int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.settings.RunDir), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(t.settings.RunDir+".log", os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	arguments := slices.Concat([]string{"train", "--arm=" + t.variant.arm}, config.Arguments(t.assignments...),
		[]string{"--resume=auto", "--listen=127.0.0.1:0"})
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", threads),
		fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	// A group of its own, because an interrupt at the keyboard is for this process to pass on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // with whose end it would be killed
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s (%w; its log is %s)", lastLine(log.Name()), err, log.Name())
	}
	return nil
}

// lastLine returns the last line of a log.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// trainCommand returns `study train`, by which studies train a run in a process of its own.
func trainCommand() *cobra.Command {
	name := ""
	cmd := &cobra.Command{Use: "train", Short: "Train one run of a study", Args: cobra.NoArgs, Hidden: true}
	loader := config.NewLoader(cmd.Flags())
	cmd.Flags().StringVar(&name, "arm", "", "a change that no setting makes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := loader.Load(nil)
		if err != nil {
			return err
		}
		change, err := armOf(name, settings)
		if err != nil {
			return err
		}
		display := runs.NewDisplay(os.Stderr)
		log := slog.New(slog.NewTextHandler(display, nil))
		return session.Train(cmd.Context(), session.Config{Settings: settings, Display: display, Log: log,
			Change: change})
	}
	return cmd
}
