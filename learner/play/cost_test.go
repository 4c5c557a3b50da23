package play_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
)

// What a viewer costs: processor time per second of play at real time, of this process with the client's reading. A share of two
// cores is half of it.
func BenchmarkViewer(b *testing.B) {
	for _, task := range []string{"Swimmer-v4", "HalfCheetah-v4", "HumanoidStandup-v4"} { // none of them ends early
		for _, speed := range []float64{1, 4} {
			b.Run(fmt.Sprintf("%s/%gx", task, speed), func(b *testing.B) {
				run := filepath.Join(b.TempDir(), "run")
				save(b, run, task, 3, 7)
				v := watch(b, serve(b, run), "")
				v.do(fmt.Sprintf(`{"do":"speed","speed":%g}`, speed))
				v.told("policy")
				frames, bytes := 0, 0
				before, begun := processorTime(b), time.Now()
				b.ResetTimer()
				for time.Since(begun) < time.Duration(b.N)*time.Second { // an operation is a second
					_, data, err := v.conn.Read(v.ctx)
					if err != nil {
						b.Fatal(err)
					}
					frames, bytes = frames+1, bytes+len(data)
				}
				wall := time.Since(begun)
				b.ReportMetric(100*(processorTime(b)-before).Seconds()/wall.Seconds(), "%core")
				b.ReportMetric(float64(frames)/wall.Seconds(), "frames/s")
				b.ReportMetric(float64(bytes)/float64(frames), "B/frame")
			})
		}
	}
}

// What a viewer costs training that keeps two cores busy: an operation is a pair of stretches of iterations, one of them watched, the
// first in every other pair. The median of the pairs' ratios is reported, and the standard error of their mean.
func BenchmarkTraining(b *testing.B) {
	const stretch = 2 // iterations
	for _, task := range []string{"HalfCheetah-v5", "HumanoidStandup-v5"} {
		b.Run(task, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // actors change it
			run := filepath.Join(b.TempDir(), "run")
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			loader := config.NewLoader(flags)
			if err := flags.Parse([]string{"--env", task, "--preset", "best", "--iterations", "1000000", "--evaluate-every", "0", "--listen", "127.0.0.1:0", "--run-dir", run}); err != nil {
				b.Fatal(err)
			}
			settings, err := loader.Load(nil)
			if err != nil {
				b.Fatal(err)
			}
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer null.Close()
			ctx, cancel := context.WithCancel(context.Background())
			trained := make(chan error)
			go func() {
				trained <- session.Train(ctx, session.Config{
					Settings: settings, Display: runs.NewDisplay(null), Log: slog.New(slog.DiscardHandler),
				})
			}()
			defer func() { cancel(); <-trained }()
			url := serve(b, run)
			at := func(iteration int) time.Time { // waits for it
				for {
					if text, err := os.ReadFile(filepath.Join(run, "progress.csv")); err == nil && bytes.Count(text, []byte("\n")) > iteration {
						return time.Now()
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			iteration := 5 // the first ones warm up
			at(iteration)
			b.ResetTimer()
			var ratios []float64
			for pair := range b.N {
				var seconds [2]float64 // alone, watched
				for half := range 2 {
					watched := (pair + half) % 2
					var conn *websocket.Conn
					if watched == 1 {
						if conn, _, err = websocket.Dial(ctx, url, nil); err != nil {
							b.Fatal(err)
						}
						conn.SetReadLimit(1 << 20)
						go func() {
							for {
								if _, _, err := conn.Read(ctx); err != nil {
									return
								}
							}
						}()
					}
					begun := at(iteration + 1) // the first with the viewer, or without, is not counted
					iteration += 1 + stretch
					seconds[watched] = at(iteration).Sub(begun).Seconds()
					if conn != nil {
						conn.CloseNow()
					}
				}
				ratios = append(ratios, seconds[1]/seconds[0])
			}
			slices.Sort(ratios)
			mean, deviation := stats.MeanStdDev(ratios)
			b.ReportMetric(100*(ratios[len(ratios)/2]-1), "%slower(median)")
			b.ReportMetric(100*(mean-1), "%slower(mean)")
			b.ReportMetric(100*deviation/math.Sqrt(float64(len(ratios))), "%error")
		})
	}
}

func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
