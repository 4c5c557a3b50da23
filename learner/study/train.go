package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/learner/train"
)

// trial is one training run of a study.
type trial struct {
	name        string // of a subject of gradient-quality one word, for files
	settings    *config.Settings
	assignments []assignment // that settings is resolved from
	arm         string       // "": none
	data        string       // path, without its ending, under which the run is published; "": nowhere
}

// all returns how many iterations or steps the run is to have.
func (t trial) all() uint64 {
	_, all := t.settings.Of(0, 0)
	return all
}

// done returns how many of them it has: all, if it is published without its directory.
func (t trial) done() (uint64, error) {
	done, all, err := runs.Done(t.settings)
	if mismatch := (*runs.MismatchError)(nil); errors.As(err, &mismatch) {
		err = t.otherwise(t.settings.RunDir, mismatch)
	}
	if done >= all || err != nil || t.data == "" {
		return done, err
	}
	p, err := t.load()
	if p != nil {
		done = all
	}
	return done, err
}

// otherwise says that a run was made with other settings.
func (t trial) otherwise(what string, mismatch *runs.MismatchError) error {
	return fmt.Errorf("%s was %w; choose another --out, or go back to those settings", what, mismatch)
}

// pacing is what is known of the speed of runs while they are made.
type pacing struct {
	trials   []trial
	parallel int

	mu      sync.Mutex
	done    []uint64  // iterations or steps, by trial
	seconds []float64 // an iteration; NaN: not known
}

// survey returns how far the runs are. It checks all of them before any is started.
func survey(trials []trial, parallel int) (*pacing, error) {
	p := &pacing{trials: trials, parallel: parallel, done: make([]uint64, len(trials)), seconds: make([]float64, len(trials))}
	for i, t := range trials {
		var err error
		if p.done[i], err = t.done(); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		p.seconds[i] = t.pace()
	}
	return p, nil
}

// recent is the number of iterations by which the speed of a run is judged.
const recent = 20

// pace returns the median duration of a run's last iterations in seconds, from whichever of its tables there is: an iteration during
// which the machine slept counts as one.
func (t trial) pace() float64 {
	for _, path := range []string{runs.ProgressFile(t.settings.RunDir), t.data + ".csv"} {
		columns, err := readColumns(path, "seconds_sampling", "seconds_updating")
		if n := len(columns[0]); err == nil && n > 0 {
			lately := max(0, n-recent)
			took := slices.Clone(columns[0][lately:])
			floats.Add(took, columns[1][lately:])
			return middle(took)
		}
	}
	return math.NaN()
}

// reached notes how far a run has come.
func (p *pacing) reached(i int, done uint64, seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[i] = done
	if !math.IsNaN(seconds) {
		p.seconds[i] = seconds
	}
}

// complete returns the number of complete runs.
func (p *pacing) complete() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for i, t := range p.trials {
		if p.done[i] >= t.all() {
			n++
		}
	}
	return n
}

// left estimates the time that the remaining iterations take, by the measured speed of the run itself, or else of the
// runs that are most like it: NaN if none has begun.
func (p *pacing) left() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0.0
	for i, t := range p.trials {
		open := float64(t.all()) - float64(p.done[i])
		if t.settings.Steps > 0 {
			open /= float64(t.settings.Batch)
		}
		if open > 0 {
			sum += open * p.expected(i)
		}
	}
	return sum / float64(p.parallel)
}

// expected returns the seconds of an iteration of a run.
func (p *pacing) expected(i int) float64 {
	if !math.IsNaN(p.seconds[i]) {
		return p.seconds[i]
	}
	s := p.trials[i].settings
	for _, like := range []func(other *config.Settings) bool{
		func(o *config.Settings) bool {
			return o.Env == s.Env && o.Algorithm == s.Algorithm && o.Estimator == s.Estimator && o.Batch == s.Batch
		},
		func(o *config.Settings) bool { return o.Env == s.Env },
		func(*config.Settings) bool { return true },
	} {
		sum, n := 0.0, 0
		for k, seconds := range p.seconds {
			if other := p.trials[k].settings; !math.IsNaN(seconds) && like(other) {
				sum += seconds / float64(other.Batch) * float64(s.Batch)
				n++
			}
		}
		if n > 0 {
			return sum / float64(n)
		}
	}
	return math.NaN()
}

// duration formats seconds for readers.
func duration(seconds float64) string {
	if math.IsNaN(seconds) {
		return "unknown"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// plan lists the runs, how far they are, and the time left.
func (j *job) plan(trials []trial, parallel int) error {
	p, err := survey(trials, parallel)
	if err != nil {
		return err
	}
	out := j.cmd.OutOrStdout()
	for i, t := range trials {
		fmt.Fprintf(out, "%5d of %d %s  %s\n", min(p.done[i], t.all()), t.all(), t.settings.Unit(), t.name)
	}
	_, err = fmt.Fprintf(out, "%d of %d runs are complete; left: %s, %d at a time\n", p.complete(), len(trials), duration(p.left()), parallel)
	return err
}

// train completes every run, several at a time, and publishes them. It skips complete runs and resumes interrupted ones, and
// calls completed after each. A run that fails does not stop the others.
func (j *job) train(ctx context.Context, trials []trial, parallel int, completed func() error) error {
	if i := slices.IndexFunc(trials, func(t trial) bool { return t.arm != "" }); i >= 0 && parallel > 1 {
		return fmt.Errorf("--parallel %d: %s has the arm %s, which only this process can train: --parallel 1",
			parallel, trials[i].name, trials[i].arm)
	}
	p, err := survey(trials, parallel)
	if err != nil {
		return err
	}
	start := slices.Clone(p.done)
	var group errgroup.Group
	group.SetLimit(parallel)
	defer j.follow(p)()
	var mu sync.Mutex // one page is written at a time
	var failed []error
	for i, t := range trials {
		if start[i] >= t.all() {
			if err := t.publish(); err != nil {
				return err
			}
			continue
		}
		group.Go(func() error {
			err := j.trainOne(ctx, p, i)
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

// trainOne trains one run: in this process, if it is the only one at a time.
func (j *job) trainOne(ctx context.Context, p *pacing, i int) error {
	t := p.trials[i]
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.log.Info("training", "what", t.name, t.settings.Unit(), t.all())
	if p.parallel > 1 {
		if err := t.trainApart(ctx, max(1, device.Cores()/p.parallel)); err != nil {
			return err
		}
	} else {
		settings := *t.settings
		settings.Resume = config.ResumeAuto
		change := func(l *train.Learner) {
			if t.arm != "" {
				arms[t.arm].change(l, &settings)
			}
		}
		training := session.Config{Settings: &settings, Display: j.display, Log: j.session, Change: change}
		if err := session.Train(ctx, training); err != nil {
			return err
		}
	}
	p.reached(i, t.all(), t.pace())
	return nil
}

// grace is the time that a run is given to end when it is interrupted.
const grace = time.Minute

// trainApart trains the run in a process of its own with that many threads, which writes its log beside the run's directory.
// It does not outlive this process, and is interrupted when ctx is done: both leave a run that can be resumed.
func (t trial) trainApart(ctx context.Context, threads int) error {
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
	cmd := exec.CommandContext(ctx, program, append(arguments(t.assignments), "--resume=auto", "--listen=127.0.0.1:0")...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.ContainsFunc([]string{"DBQPG_", "GOMAXPROCS=", "OPENBLAS_NUM_THREADS="}, func(start string) bool { return strings.HasPrefix(variable, start) })
	})
	cmd.Env = append(cmd.Env, fmt.Sprintf("GOMAXPROCS=%d", threads), fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	// A group of its own, because an interrupt at the keyboard is for this process to pass on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // with whose end it would be killed
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s (%w; its log is %s)", lastLine(log), err, log.Name())
	}
	return nil
}

// lastLine returns the last line of a log.
func lastLine(log *os.File) string {
	const most = 1 << 12 // bytes
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), most))
	if _, err := log.ReadAt(text, info.Size()-int64(len(text))); err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// follow logs the progress of all runs every minute, until the function that it returns is called.
func (j *job) follow(p *pacing) (stop func()) {
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
					p.reached(i, done, t.pace())
				}
			}
			j.log.Info("progress", "complete", fmt.Sprintf("%d of %d runs", p.complete(), len(p.trials)), "left", duration(p.left()))
		}
	}()
	return func() { ticker.Stop(); close(end) }
}
