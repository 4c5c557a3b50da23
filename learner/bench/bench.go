// Package bench measures the parts of a training iteration, each relative to the machine's
// own rate in the same run: sampling relative to the bare engine, the update relative to
// plain matrix products.
package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
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
	noSample  bool
	device    config.Device
	settings  map[string]string
}

// Command returns `learner bench`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure sampling and updates beside the machine's own rates",
		Long: `Plays batches of a task with its initial policy, and takes policy steps with each
estimator. Sampling is compared with the bare engine on the same episodes, and each stage of
an update with plain matrix products. All figures are medians over the rounds.`,
		Example: "  learner bench --env HumanoidStandup-v2 --sizes 5000,15000,45000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			task, err := config.LookupTask(o.env)
			if err != nil {
				return err
			}
			if o.noUpdate && o.noSample {
				return fmt.Errorf("bench: --sampling-only and --updates-only leave nothing to measure")
			}
			if o.rounds < 1 || o.actors < 1 || len(o.sizes) == 0 {
				return fmt.Errorf("bench: --rounds, --actors and --sizes must be at least 1")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), task)
		},
	}
	cmd.Flags().StringVar(&o.env, "env", "Swimmer-v2", "task")
	cmd.Flags().StringVar(&o.algorithm, "algorithm", "npg", "policy step: vanilla, npg or trpo")
	cmd.Flags().IntSliceVar(&o.sizes, "sizes", []int{15000}, "batch sizes in steps")
	cmd.Flags().IntVar(&o.rounds, "rounds", 7, "number of measurements of each figure")
	cmd.Flags().IntVar(&o.actors, "actors", device.Cores(), "number of local actors")
	cmd.Flags().BoolVar(&o.noUpdate, "sampling-only", false, "do not measure updates")
	cmd.Flags().BoolVar(&o.noSample, "updates-only", false, "play each batch once, and do not measure sampling")
	cmd.Flags().Var(&o.device, "device", "device to compute on: auto, cpu, cuda or cuda:N")
	cmd.Flags().StringToStringVar(&o.settings, "set", nil,
		"learner settings for the updates, such as preset=best or solver=cg,fisher_kernel=exact")
	return cmd
}

func (o options) run(ctx context.Context, w io.Writer, task sim.Spec) error {
	computer, err := device.Open(o.device)
	if err != nil {
		return err
	}
	defer computer.Close()
	fmt.Fprintf(w, "%s, %d cores, %s, %s, %s\n", device.Processor(), device.Cores(), runtime.Version(), computer.Name(),
		tasks.Engine())
	return withSampler(ctx, task, o.actors, func(ctx context.Context, s *sampler) error {
		if _, err := s.collect(ctx, 5000); err != nil { // for the normaliser
			return err
		}
		for _, steps := range o.sizes {
			batch, err := o.play(ctx, w, s, steps)
			if err != nil {
				return err
			}
			if o.noUpdate {
				continue
			}
			if err := o.updates(w, computer.Backend, task, batch, s.moments.Normalizer(5)); err != nil {
				return err
			}
		}
		return nil
	})
}

// play returns a batch, and prints how fast it was played unless that is left out.
func (o options) play(ctx context.Context, w io.Writer, s *sampler, steps int) (*collect.Batch, error) {
	if !o.noSample {
		return o.sampling(ctx, w, s, steps)
	}
	batch, err := s.collect(ctx, steps)
	if err == nil {
		fmt.Fprintf(w, "\n%s, n = %d, %d episodes\n", s.task.Name, batch.Steps, len(batch.Episodes))
	}
	return batch, err
}

// sampling prints how fast batches are played, and returns the last. Its last two figures are the number of cores that
// the process used: if the bare loop used fewer than there are actors, something else was running.
func (o options) sampling(ctx context.Context, w io.Writer, s *sampler, steps int) (*collect.Batch, error) {
	var rates, bares, shares, busy, bareBusy []float64
	var batch *collect.Batch
	for range o.rounds {
		before := device.ProcessorTime()
		var err error
		if batch, err = s.collect(ctx, steps); err != nil {
			return nil, err
		}
		between := device.ProcessorTime()
		bare, err := s.bare(ctx, batch)
		if err != nil {
			return nil, err
		}
		n, took := float64(batch.Steps), batch.Stats.Elapsed.Seconds()
		rates, bares = append(rates, n/took), append(bares, n/bare.Seconds())
		shares = append(shares, bare.Seconds()/took)
		busy = append(busy, (between-before).Seconds()/took)
		bareBusy = append(bareBusy, (device.ProcessorTime()-between).Seconds()/bare.Seconds())
	}
	fmt.Fprintf(w, "\n%s, n = %d, %d episodes, %d actors\n", s.task.Name, batch.Steps, len(batch.Episodes), o.actors)
	fmt.Fprintf(w, "  sampling             %8.0f steps/s   bare mj_step loop %8.0f steps/s   share "+
		"%.3f   on %.2f and %.2f cores\n",
		median(rates), median(bares), median(shares), median(busy), median(bareBusy))
	return batch, nil
}

// learner returns the settings of a learner: the task's, with those given.
func (o options) learner(task string, estimator config.Estimator) (config.Settings, error) {
	settings, err := config.ForTask(task, config.Algorithm(o.algorithm), estimator, config.Preset(o.settings["preset"]))
	if err != nil {
		return settings, err
	}
	for name, value := range o.settings {
		if err := settings.Set(name, value); err != nil {
			return settings, fmt.Errorf("--set: %w", err)
		}
	}
	settings.RunDir = settings.DefaultRunDir() // nothing is written there, but it must be set
	return settings, settings.Validate()
}
