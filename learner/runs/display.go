package runs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/dbqpg/dbqpg/internal/config"
)

// Display shows a run's log and its progress. Its methods may be called from any goroutine.
type Display struct {
	out   io.Writer
	width func() int // columns of the terminal; nil if out is not one

	mu   sync.Mutex
	line string // the progress line on the terminal, or ""
}

// NewDisplay returns a display on a file, such as os.Stderr.
func NewDisplay(out *os.File) *Display {
	d := &Display{out: out}
	fd := int(out.Fd())
	if term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		d.width = func() int {
			width, _, err := term.GetSize(fd)
			if err != nil || width <= 0 {
				return 80
			}
			return width
		}
	}
	return d
}

// eraseLine puts the cursor at the line's start and clears it.
const eraseLine = "\r\x1b[K"

// Write writes complete lines of the log above the progress line. It makes Display the writer of a slog handler.
func (d *Display) Write(lines []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line == "" {
		return d.out.Write(lines)
	}
	var all bytes.Buffer
	all.WriteString(eraseLine)
	all.Write(lines)
	all.WriteString(d.line)
	if _, err := d.out.Write(all.Bytes()); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// show replaces the progress line. It ignores errors, which must not stop a run.
func (d *Display) show(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if room := d.width() - 1; len(line) > room { // a full last column would wrap
		line = line[:max(room, 0)]
	}
	d.line = line
	_, _ = io.WriteString(d.out, eraseLine+line)
}

// Say writes complete lines on a terminal, and nothing elsewhere. It ignores errors, which must not fail a run.
func (d *Display) Say(text string) {
	if d.width != nil {
		_, _ = d.Write([]byte(text))
	}
}

// end keeps the progress line and moves to the next line.
func (d *Display) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line != "" {
		d.line = ""
		_, _ = io.WriteString(d.out, "\n")
	}
}

// Progress is the progress of one run on a display. Its methods may be called from any goroutine.
type Progress struct {
	display *Display
	log     *slog.Logger
	length  config.Length

	mu       sync.Mutex
	row      Row     // of the last completed iteration
	done     uint64  // of the length, in its unit
	best     float64 // return; NaN: unknown
	bestName string  // best or best_evaluation
	rate     float64 // environment steps a second in the last iteration
	pace     float64 // seconds for one of the length's unit, averaged; 0: unknown
	sampling string
	drawn    time.Time
}

// Start shows the progress of a run from its current iteration to its length. Without a terminal it goes to log.
func (d *Display) Start(log *slog.Logger, length config.Length, from Counters) *Progress {
	p := &Progress{display: d, log: log, length: length, row: NewRow(), best: math.NaN(), bestName: "best"}
	p.done, _ = length.Of(from.Iteration, from.Steps)
	p.setBest(from.Best)
	p.draw()
	return p
}

// redraw is the minimum interval between changes of the line within an iteration.
const redraw = 100 * time.Millisecond

// Sampling reports how many steps of a batch have arrived.
func (p *Progress) Sampling(steps, batch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.display.width == nil || time.Since(p.drawn) < redraw {
		return
	}
	p.sampling = fmt.Sprintf("  sampling %d%%", min(100, 100*steps/max(batch, 1)))
	p.draw()
}

// smoothing is the weight of the newest iteration in the pace.
const smoothing = 0.1

// setBest sets the best return so far, if there is one.
func (p *Progress) setBest(best *Best) {
	if best == nil {
		return
	}
	p.best, p.bestName = best.Return, "best"
	if best.Evaluated {
		p.bestName = "best_evaluation"
	}
}

// Done reports a completed iteration, the steps in its batch, and the best policy so far.
func (p *Progress) Done(row Row, steps int, best *Best) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seconds := row.SecondsSampling + row.SecondsUpdating; seconds > 0 {
		p.rate = float64(steps) / seconds
		one, _ := p.length.Of(1, uint64(steps)) // iteration
		pace := seconds / float64(one)
		if p.pace == 0 {
			p.pace = pace
		}
		p.pace += smoothing * (pace - p.pace)
	}
	done, all := p.length.Of(row.Iteration+1, row.Steps)
	p.done = done
	p.setBest(best)
	if p.display.width == nil {
		numbers := []any{"iteration", row.Iteration}
		if p.length.Steps > 0 {
			numbers = append(numbers, "steps", done)
		}
		numbers = append(numbers, "of", all)
		if !math.IsNaN(row.ReturnMean) { // no episode may have ended in a batch of segments
			numbers = append(numbers, "return", round(row.ReturnMean))
		}
		if !math.IsNaN(p.best) {
			numbers = append(numbers, p.bestName, round(p.best))
		}
		p.log.Info("iteration done", append(numbers, "steps_per_second", math.Round(p.rate), "left", p.left())...)
	}
	if math.IsNaN(row.ReturnMean) {
		row.ReturnMean = p.row.ReturnMean
	}
	p.row, p.sampling = row, ""
	p.draw()
}

// End keeps the last line on the terminal.
func (p *Progress) End() { p.display.end() }

func (p *Progress) draw() {
	if p.display.width == nil {
		return
	}
	p.drawn = time.Now()
	_, all := p.length.Of(0, 0)
	line := fmt.Sprintf("%d/%d %s", p.done, all, p.length.Unit())
	if !math.IsNaN(p.row.ReturnMean) {
		best := strings.ReplaceAll(p.bestName, "_", " ")
		line += fmt.Sprintf("  return %.1f  %s %.1f", p.row.ReturnMean, best, p.best)
	}
	if p.pace != 0 {
		line += fmt.Sprintf("  %.0f steps/s  %s left", p.rate, p.left())
	}
	p.display.show(line + p.sampling)
}

// left estimates the time that remains, to the second or the minute.
func (p *Progress) left() string {
	_, all := p.length.Of(0, 0)
	left := time.Duration(p.pace * float64(all-min(p.done, all)) * float64(time.Second))
	if left < time.Hour {
		return left.Round(time.Second).String()
	}
	minutes := int(left.Round(time.Minute).Minutes())
	return fmt.Sprintf("%dh%02dm", minutes/60, minutes%60)
}

// round reduces a number to the digits that are useful in a log.
func round(x float64) float64 { return math.Round(10*x) / 10 }
