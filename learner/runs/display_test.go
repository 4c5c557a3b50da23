package runs

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dbqpg/dbqpg/internal/config"
)

// terminal opens a real pseudo-terminal of that width. shown closes it and returns everything that was written to it.
func terminal(t *testing.T, columns uint16) (tty *os.File, shown func() string) {
	t.Helper()
	t.Setenv("TERM", "xterm")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1024)
		for {
			n, err := master.Read(buffer) // fails once the other side is closed
			text.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return tty, func() string {
		tty.Close()
		<-done
		return strings.ReplaceAll(text.String(), "\r\n", "\n") // the terminal's own doing
	}
}

func played(iteration uint64, value float64) Row {
	row := NewRow()
	row.Iteration, row.ReturnMean = iteration, value
	row.SecondsSampling, row.SecondsUpdating = 2, 1
	return row
}

func TestTerminal(t *testing.T) {
	tty, shown := terminal(t, 100)
	display := NewDisplay(tty)
	log := slog.New(slog.NewTextHandler(display, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("before")
	p := display.Start(log, config.Length{Iterations: 1000}, Counters{})
	p.Done(played(0, 20.25), 15000, &Best{Return: 20.25})
	log.Info("between")
	p.Done(played(1, 10), 15000, &Best{Return: 20.25})
	p.Done(played(998, 30), 15000, &Best{Return: 35.5, Iteration: 950, Evaluated: true})
	p.End()
	log.Info("after")
	want := "level=INFO msg=before\n" +
		eraseLine + "0/1000 iterations" +
		eraseLine + "1/1000 iterations  return 20.2  best 20.2  5000 steps/s  49m57s left" +
		eraseLine + "level=INFO msg=between\n" + "1/1000 iterations  return 20.2  best 20.2  5000 steps/s  49m57s left" +
		eraseLine + "2/1000 iterations  return 10.0  best 20.2  5000 steps/s  49m54s left" +
		eraseLine + "999/1000 iterations  return 30.0  best evaluation 35.5  5000 steps/s  3s left\n" +
		"level=INFO msg=after\n"
	if got := shown(); got != want {
		t.Errorf("the terminal got\n%q, want\n%q", got, want)
	}
}

func TestSamplingOnTerminal(t *testing.T) {
	tty, shown := terminal(t, 100)
	p := NewDisplay(tty).Start(slog.New(slog.DiscardHandler), config.Length{Iterations: 10}, Counters{})
	p.drawn = p.drawn.Add(-redraw)
	p.Sampling(5000, 15000)
	p.Sampling(6000, 15000) // too soon
	want := eraseLine + "0/10 iterations" + eraseLine + "0/10 iterations  sampling 33%"
	if got := shown(); got != want {
		t.Errorf("the terminal got %q, want %q", got, want)
	}
}

// A line as wide as the terminal would wrap, and then not be erased.
func TestNarrowTerminal(t *testing.T) {
	tty, shown := terminal(t, 12)
	NewDisplay(tty).Start(slog.New(slog.DiscardHandler), config.Length{Iterations: 10}, Counters{})
	if got, want := shown(), eraseLine+"0/10 iterat"; got != want {
		t.Errorf("the terminal got %q, want %q", got, want)
	}
}

func TestResumedRun(t *testing.T) {
	tty, shown := terminal(t, 100)
	far := Counters{Iteration: 7, Steps: 7 * 15000, Best: &Best{Return: 50}}
	p := NewDisplay(tty).Start(slog.New(slog.DiscardHandler), config.Length{Iterations: 8}, far)
	p.Done(played(7, 40), 15000, far.Best)
	want := eraseLine + "7/8 iterations" + eraseLine + "8/8 iterations  return 40.0  best 50.0  5000 steps/s  0s left"
	if got := shown(); got != want {
		t.Errorf("the terminal got %q, want %q", got, want)
	}
}

func TestOffTerminal(t *testing.T) {
	path := t.TempDir() + "/log"
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	display := NewDisplay(file)
	log := slog.New(slog.NewTextHandler(display, nil))
	p := display.Start(log, config.Length{Iterations: 10_000}, Counters{})
	p.Sampling(5000, 15000)
	p.Done(played(0, 20.26), 15000, &Best{Return: 20.26})
	p.End()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `msg="iteration done" iteration=0 of=10000 return=20.3 best=20.3 steps_per_second=5000 left=8h20m` + "\n"
	if got := string(data); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("logged %q, want one line that ends with %q", got, want)
	}
}

// A run of so many steps, whose number of iterations nobody knows, shows these.
func TestSteps(t *testing.T) {
	length := config.Length{Steps: 1_000_000}
	at := func(iteration, steps uint64) Row {
		row := played(iteration, 20.25) // in 3 s
		row.Steps = steps
		return row
	}
	tty, shown := terminal(t, 100)
	p := NewDisplay(tty).Start(slog.New(slog.DiscardHandler), length, Counters{Iteration: 3, Steps: 400_000})
	best := &Best{Return: 30}
	p.Done(at(4, 500_000), 100_000, best)
	p.Done(at(5, 1_050_000), 100_000, best)
	want := eraseLine + "400000/1000000 steps" + eraseLine + "500000/1000000 steps  return 20.2  best 30.0  33333 steps/s  15s left" +
		eraseLine + "1050000/1000000 steps  return 20.2  best 30.0  33333 steps/s  0s left"
	if got := shown(); got != want {
		t.Errorf("the terminal got %q, want %q", got, want)
	}

	path := t.TempDir() + "/log"
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	display := NewDisplay(file)
	display.Start(slog.New(slog.NewTextHandler(display, nil)), length, Counters{}).Done(at(49, 500_000), 10_000, best)
	logged, err := os.ReadFile(path)
	if want := "iteration=49 steps=500000 of=1000000 return=20.3 best=30 steps_per_second=3333 left=2m30s\n"; err != nil || !strings.HasSuffix(string(logged), want) {
		t.Errorf("%v, logged %q, want %q", err, logged, want)
	}
}

func TestDumbTerminal(t *testing.T) {
	tty, shown := terminal(t, 100)
	t.Setenv("TERM", "dumb")
	display := NewDisplay(tty)
	display.Start(slog.New(slog.NewTextHandler(display, nil)), config.Length{Iterations: 10}, Counters{}).Done(played(0, 2), 15000, nil)
	if got := shown(); strings.Contains(got, "\x1b") || !strings.Contains(got, "iteration=0") {
		t.Errorf("the terminal got %q", got)
	}
}

// Many goroutines log while the line changes: no log line is torn.
func TestConcurrentLogging(t *testing.T) {
	tty, shown := terminal(t, 100)
	display := NewDisplay(tty)
	p := display.Start(slog.New(slog.DiscardHandler), config.Length{Iterations: 10}, Counters{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				fmt.Fprintln(display, "a whole line")
				p.Done(played(0, 1), 15000, nil)
			}
		})
	}
	group.Wait()
	if got := strings.Count(shown(), eraseLine+"a whole line\n"); got != 200 {
		t.Errorf("%d whole lines, want 200", got)
	}
}

// What Say writes is for people at a terminal alone.
func TestSay(t *testing.T) {
	tty, shown := terminal(t, 80)
	NewDisplay(tty).Say("the end\n")
	if got := shown(); got != "the end\n" {
		t.Errorf("the terminal shows %q", got)
	}
	path := t.TempDir() + "/log"
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	NewDisplay(file).Say("the end\n")
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("the file has %q, %v", text, err)
	}
}
