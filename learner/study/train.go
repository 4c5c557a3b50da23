package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
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
	"github.com/dbqpg/dbqpg/learner/train"
)

// total returns the length of the run, in iterations or steps.
func (t *trial) total() uint64 {
	_, all := t.settings.Of(0, 0)
	return all
}

// progress returns how far the run is: at its end, if it is published, or complete by a program that has other settings
// beside the run's.
func (t *trial) progress() (uint64, error) {
	if t.data != "" {
		if s, err := t.load(); s != nil || err != nil {
			return t.total(), err
		}
	}
	if own, err := settingsOf(t.settings.RunDir); err == nil && maps.Equal(own.Identity(), t.settings.Identity()) {
		s, err := readColumns(runs.ProgressFile(t.settings.RunDir), "steps")
		if err != nil {
			return 0, err
		}
		if _, complete := t.length(s.columns["steps"]); complete {
			return t.total(), nil
		}
	}
	done, _, err := runs.Done(t.settings)
	if mismatch := (*runs.MismatchError)(nil); errors.As(err, &mismatch) {
		err = otherwise(t.settings.RunDir, mismatch)
	}
	return done, err
}

// schedule is the runs of a study, and how far they are.
type schedule struct {
	trials   []*trial
	parallel int
	begin    time.Time

	mu          sync.Mutex
	start, done []uint64 // iterations or steps, by trial
}

// survey returns how far the runs are. It checks all of them before any is started.
func survey(trials []*trial, parallel int) (*schedule, error) {
	p := &schedule{trials: trials, parallel: parallel, begin: time.Now()}
	for _, t := range trials {
		done, err := t.progress()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		p.done = append(p.done, min(done, t.total()))
	}
	p.start = slices.Clone(p.done)
	return p, nil
}

// reached records how far a run is.
func (p *schedule) reached(i int, done uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[i] = min(done, p.trials[i].total())
}

// summary says how many runs are complete, and how long the others take at the speed so far.
func (p *schedule) summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	complete, made, open := 0, 0.0, 0.0 // samples
	for i, t := range p.trials {
		size := 1.0
		if t.settings.Steps == 0 {
			size = float64(t.settings.Batch)
		}
		made += size * float64(p.done[i]-p.start[i])
		open += size * float64(t.total()-p.done[i])
		if p.done[i] == t.total() {
			complete++
		}
	}
	text := fmt.Sprintf("%d of %d runs are complete", complete, len(p.trials))
	if made > 0 {
		text += "; left: " + time.Duration(float64(time.Since(p.begin))*open/made).Round(time.Second).String()
	}
	return text
}

// print lists the runs, and how far they are.
func (p *schedule) print(out io.Writer) error {
	for i, t := range p.trials {
		fmt.Fprintf(out, "%5d of %d %s  %s\n", p.done[i], t.total(), t.settings.Unit(), t.name)
	}
	_, err := fmt.Fprintln(out, p.summary())
	return err
}

// train completes every run, several at a time, and publishes them. It skips complete runs and resumes interrupted
// ones, and calls completed after each. A run that fails does not stop the others.
func (p *schedule) train(ctx context.Context, j *job, completed func() error) error {
	var group errgroup.Group
	group.SetLimit(p.parallel)
	defer p.follow(j)()
	var mu sync.Mutex // one page is written at a time
	var failed []error
	for i, t := range p.trials {
		if p.start[i] == t.total() {
			if err := t.publish(); err != nil {
				return err
			}
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			j.log.Info("training", "run", t.name, t.settings.Unit(), t.total())
			err := t.train(ctx, max(1, device.Cores()/p.parallel))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				p.reached(i, t.total())
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

// follow logs the progress of all runs every minute, until the function that it returns is called.
func (p *schedule) follow(j *job) (stop func()) {
	ticker, end := time.NewTicker(time.Minute), make(chan struct{})
	go func() {
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			for i, t := range p.trials {
				if done, _, err := runs.Done(t.settings); err == nil && done > 0 {
					p.reached(i, done)
				}
			}
			j.log.Info("progress", "runs", p.summary())
		}
	}()
	return func() { ticker.Stop(); close(end) }
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
	arguments := slices.Concat([]string{"train", "--arm=" + t.arm}, config.Arguments(t.assignments...),
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
		if err == nil {
			err = checkArm(name, settings)
		}
		if err != nil {
			return err
		}
		change := func(l *train.Learner) {
			if name != "" {
				arms[name].change(l, settings)
			}
		}
		display := runs.NewDisplay(os.Stderr)
		log := slog.New(slog.NewTextHandler(display, nil))
		return session.Train(cmd.Context(), session.Config{Settings: settings, Display: display, Log: log, Change: change})
	}
	return cmd
}
