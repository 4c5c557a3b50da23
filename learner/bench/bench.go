// Package bench measures what a training iteration is made of, each part beside the
// machine's own rate in the same run: sampling beside the bare engine, the update
// beside plain matrix products.
package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/config"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/machine"
	"github.com/dbqpg/dbqpg/learner/metrics"
	"github.com/dbqpg/dbqpg/learner/presets"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// options are the command's flags.
type options struct {
	env       string
	algorithm string
	sizes     []int
	rounds    int
	actors    int
	noUpdate  bool
	device    config.Device
	settings  map[string]string
}

// Command is `learner bench`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure sampling and updates beside the machine's own rates",
		Long: `Plays batches of a task with its initial policy and takes policy steps with each
estimator. Sampling is compared with the bare engine on the same episodes, each stage of
an update with plain matrix products. All figures are medians over the rounds.`,
		Example: "  learner bench --env HumanoidStandup-v2 --sizes 5000,15000,45000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			task, err := sim.Lookup(o.env)
			if err != nil {
				return err
			}
			if o.rounds < 1 || o.actors < 1 || len(o.sizes) == 0 {
				return fmt.Errorf("bench: --rounds, --actors and --sizes must be at least 1")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), task)
		},
	}
	cmd.Flags().StringVar(&o.env, "env", "Swimmer-v2", "task")
	cmd.Flags().StringVar(&o.algorithm, "algorithm", "npg", "policy step: vanilla, npg or trpo")
	cmd.Flags().IntSliceVar(&o.sizes, "sizes", []int{15000}, "steps in a batch")
	cmd.Flags().IntVar(&o.rounds, "rounds", 7, "times that each figure is measured")
	cmd.Flags().IntVar(&o.actors, "actors", machine.Cores(), "local actors")
	cmd.Flags().BoolVar(&o.noUpdate, "sampling-only", false, "leave the updates out")
	cmd.Flags().Var(&o.device, "device", config.DeviceHelp)
	cmd.Flags().StringToStringVar(&o.settings, "set", nil, "the learner's settings for the updates, such as solver=cg,fisher_kernel=exact")
	return cmd
}

func (o options) run(ctx context.Context, w io.Writer, task sim.Spec) error {
	b, closeDevice, err := device.Open(o.device, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer closeDevice()
	fmt.Fprintf(w, "%s, %d cores, %s, %s, %s\n", machine.Processor(), machine.Cores(), runtime.Version(), b.Name(), tasks.Engine())
	return withSampler(ctx, task, o.actors, func(ctx context.Context, s *sampler) error {
		if _, err := s.collect(ctx, 5000); err != nil { // for the normaliser
			return err
		}
		for _, steps := range o.sizes {
			batch, err := o.sampling(ctx, w, s, steps)
			if err != nil {
				return err
			}
			if o.noUpdate {
				continue
			}
			if err := o.updates(w, b, task, batch, s.moments.Normalizer(5)); err != nil {
				return err
			}
		}
		return nil
	})
}

// sampling prints how fast batches are played, and returns the last. Its last two figures are how many processors the
// process had meanwhile: where the bare loop has fewer than there are actors, something else was at work.
func (o options) sampling(ctx context.Context, w io.Writer, s *sampler, steps int) (*collect.Batch, error) {
	var rates, bares, shares, busy, bareBusy []float64
	var batch *collect.Batch
	for range o.rounds {
		before := machine.ProcessorTime()
		var err error
		if batch, err = s.collect(ctx, steps); err != nil {
			return nil, err
		}
		between := machine.ProcessorTime()
		bare, err := s.bare(ctx, batch)
		if err != nil {
			return nil, err
		}
		n, took := float64(batch.Steps), batch.Stats.Elapsed.Seconds()
		rates, bares = append(rates, n/took), append(bares, n/bare.Seconds())
		shares = append(shares, bare.Seconds()/took)
		busy = append(busy, (between-before).Seconds()/took)
		bareBusy = append(bareBusy, (machine.ProcessorTime()-between).Seconds()/bare.Seconds())
	}
	fmt.Fprintf(w, "\n%s, n = %d, %d episodes, %d actors\n", s.task.Name, batch.Steps, len(batch.Episodes), o.actors)
	fmt.Fprintf(w, "  sampling             %8.0f steps/s   bare mj_step loop %8.0f steps/s   share %.3f   on %.2f and %.2f cores\n",
		median(rates), median(bares), median(shares), median(busy), median(bareBusy))
	return batch, nil
}

// updates prints how long a policy step takes with each estimator.
func (o options) updates(w io.Writer, b compute.Backend, task sim.Spec, batch *collect.Batch, n policy.Normalizer) error {
	fmt.Fprintf(w, "  plain products       %8.1f GFLOP/s (n x o by o x 64), %.1f (n x 64 by 64 x 64), %.1f (512 x 512 by 512 x 512)\n",
		gemm(b, batch.Steps, task.ObservationDim, 64), gemm(b, batch.Steps, 64, 64), gemm(b, 512, 512, 512))
	var all []*measured
	for _, estimator := range []config.Estimator{config.MonteCarlo, config.DBQPG, config.UAPG} {
		settings, err := o.learner(task.Name, estimator)
		if err != nil {
			return err
		}
		all = append(all, &measured{settings: settings, stages: map[string]*stage{}})
	}
	counter := newCounter(b)
	for round := range o.rounds + 1 { // by turns; the first is a warm-up
		for _, m := range all {
			if err := m.update(counter, task, batch, n, round > 0); err != nil {
				return err
			}
		}
	}
	for _, m := range all {
		m.print(w, all[0])
	}
	fmt.Fprintf(w, "  peak memory so far   %8.0f MB\n", float64(machine.PeakMemory())/1e6)
	return nil
}

// learner returns the settings of a learner: the task's, with those given.
func (o options) learner(task string, estimator config.Estimator) (config.Settings, error) {
	settings, err := presets.For(task, config.Algorithm(o.algorithm), estimator, config.Code)
	if err != nil {
		return settings, err
	}
	for name, value := range o.settings {
		if err := settings.Set(name, value); err != nil {
			return settings, fmt.Errorf("--set: %w", err)
		}
	}
	settings.RunDir = settings.DefaultRunDir() // none is written, but none is not valid
	return settings, settings.Validate()
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// measured are the updates of one learner, each from its first state and with the
// batch's upload.
type measured struct {
	settings config.Settings
	took     []time.Duration
	names    []string // of the stages, in order
	stages   map[string]*stage
}

// stage is a part of an update.
type stage struct {
	took  []time.Duration
	flops float64
}

// update does one, and keeps its times if it counts.
func (m *measured) update(b counter, task sim.Spec, batch *collect.Batch, n policy.Normalizer, counts bool) error {
	b.take()
	took, err := Update(b, &m.settings, task, batch.Episodes, n, func(name string, took time.Duration) {
		flops := b.take()
		if !counts {
			m.names, m.stages[name] = append(m.names, name), &stage{flops: flops}
			return
		}
		m.stages[name].took = append(m.stages[name].took, took)
	})
	if counts {
		m.took = append(m.took, took)
	}
	return err
}

// print shows the medians, and that of the rounds' ratios to another's updates.
func (m *measured) print(w io.Writer, other *measured) {
	var ratios []float64
	for i, took := range m.took {
		ratios = append(ratios, took.Seconds()/other.took[i].Seconds())
	}
	name := fmt.Sprintf("%s-%s", m.settings.Algorithm, m.settings.Estimator)
	fmt.Fprintf(w, "  update %-13s %8.1f ms   %.2f x mc\n", name, milliseconds(median(m.took)), median(ratios))
	for _, name := range m.names {
		s := m.stages[name]
		took := median(s.took)
		fmt.Fprintf(w, "    %-18s %8.1f ms   %6.1f GFLOP   %6.1f GFLOP/s\n", name, milliseconds(took), s.flops/1e9, s.flops/1e9/took.Seconds())
	}
}

// Update is how long a new learner takes for an update on a batch, its upload included. lap hears how long each
// stage took.
func Update(b compute.Backend, settings *config.Settings, task sim.Spec, episodes []*proto.Episode, n policy.Normalizer,
	lap func(stage string, took time.Duration)) (time.Duration, error) {
	learner, row := train.New(b, settings, task), metrics.NewRow()
	start := time.Now()
	scope := compute.NewScope(b)
	x := train.NewSamples(scope, episodes, nil, n)
	lap("upload", time.Since(start))
	err := learner.Update(x, scope, rand.New(rand.NewPCG(seed, streams.Sketch)), &row, lap)
	scope.Release()
	return time.Since(start), err
}
