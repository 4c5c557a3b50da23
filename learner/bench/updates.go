package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// updates prints how long a policy step takes with each estimator.
func (o options) updates(w io.Writer, b compute.Backend, task sim.Spec, batch *collect.Batch,
	n policy.Normalizer) error {
	fmt.Fprintf(w, "  plain products       %8.1f GFLOP/s (n x o by o x 64), %.1f (n x 64 by 64 x 64), "+
		"%.1f (512 x 512 by 512 x 512)\n",
		gemm(b, batch.Steps, task.ObservationDim, 64), gemm(b, batch.Steps, 64, 64), gemm(b, 512, 512, 512))
	var all []*measured
	for _, estimator := range []config.Estimator{config.MonteCarlo, config.DBQPG, config.UAPG} {
		settings, err := o.learner(task.Name, estimator)
		if err != nil {
			return err
		}
		all = append(all, &measured{settings: settings, stages: map[string][]time.Duration{},
			do: func(b compute.Backend, lap lap) (time.Duration, error) {
				return Update(b, &settings, task, batch.Episodes, n, lap)
			}})
	}
	for round := range o.rounds + 1 { // alternating; the first round is a warm-up
		for _, m := range all {
			if err := m.update(b, round > 0); err != nil {
				return err
			}
		}
	}
	for _, m := range all {
		m.print(w, all[0])
	}
	fmt.Fprintf(w, "  peak memory so far   %8.0f MB\n", float64(device.PeakMemory())/1e6)
	if device, ok := b.(interface{ PeakBytes() int64 }); ok {
		fmt.Fprintf(w, "  of the device        %8.0f MB\n", float64(device.PeakBytes())/1e6)
	}
	return nil
}

// lap is called with the duration of a stage; it may be nil.
type lap = func(stage string, took time.Duration)

// measured are the updates of one learner, each from its first state and with the
// batch's upload: whole ones, and as many by stages.
type measured struct {
	settings config.Settings
	do       func(b compute.Backend, lap lap) (time.Duration, error)
	took     []time.Duration
	names    []string // of the stages, in order
	stages   map[string][]time.Duration
}

// update times an update, and another one stage by stage, waiting for each; the times are kept if they count. In
// the former stages of a distant device overlap, and deferred parts run beside other stages.
func (m *measured) update(b compute.Backend, counts bool) error {
	took, err := m.do(b, nil)
	if err != nil {
		return err
	}
	if counts {
		m.took = append(m.took, took)
	}
	_, err = m.do(serial{b}, func(name string, took time.Duration) {
		asked := time.Now()
		wait(b)
		if took += time.Since(asked); counts {
			m.stages[name] = append(m.stages[name], took)
		} else {
			m.names = append(m.names, name)
		}
	})
	return err
}

// serial is a backend that computes nothing beside a stage.
type serial struct{ compute.Backend }

func (serial) Distant() bool { return true }

// print shows the medians, and that of the rounds' ratios to another's updates.
func (m *measured) print(w io.Writer, other *measured) {
	var ratios []float64
	for i, took := range m.took {
		ratios = append(ratios, took.Seconds()/other.took[i].Seconds())
	}
	fmt.Fprintf(w, "  update %-13s %8.1f ms   %.2f x mc\n", m.name(), milliseconds(median(m.took)), median(ratios))
	for _, name := range m.names {
		fmt.Fprintf(w, "    %-18s %8.1f ms\n", name, milliseconds(median(m.stages[name])))
	}
}

func (m *measured) name() string {
	return fmt.Sprintf("%s-%s", m.settings.Algorithm, m.settings.Estimator)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// Update is how long a new learner takes for an update on a batch, its upload included. lap, unless it is nil, hears
// how long each stage took.
func Update(b compute.Backend, settings *config.Settings, task sim.Spec, episodes []*proto.Episode, n policy.Normalizer,
	lap lap) (time.Duration, error) {
	learner, row := train.New(b, settings, task), runs.NewRow()
	start := time.Now()
	scope := compute.NewScope(b)
	defer scope.Release()
	x := train.NewSamples(scope, episodes, nil, n)
	if lap != nil {
		lap("upload", time.Since(start))
	}
	err := learner.Update(x, scope, train.NewRandom(seed, 0), &row, lap)
	return time.Since(start), err
}
