package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/bench"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// wallClockOptions are the flags of wall-clock.
type wallClockOptions struct {
	env       string
	algorithm string
	sizes     []uint
	rounds    int
	seed      uint64
	set       []string
}

const wallClockQuestion = `How long does an update take? Batches of several sizes are played with the initial policy, and each estimator
takes updates on them, from the batch's upload to the policy's step, as in the paper's fig:appendix_wall_clock. The
estimation is the update without the policy's step.`

func wallClockCommand() *cobra.Command {
	o := new(wallClockOptions)
	cmd := &cobra.Command{
		Use:   "wall-clock --out DIR",
		Short: "Update time against the size of the batch",
		Long: wallClockQuestion + `

The estimators are measured in turns, so that other load on the machine affects them alike; still,
the machine should be idle otherwise. Sizes already measured are not measured again.`,
		Example: "  learner study wall-clock --out wall --quick\n  learner study wall-clock --out docs/results/wall-clock",
	}
	flags := prepare(cmd, o.run, map[string]string{"env": "Swimmer-v2", "sizes": "2500,5000,10000,15000", "rounds": "5"})
	flags.StringVar(&o.env, "env", "HumanoidStandup-v2", "task")
	flags.StringVar(&o.algorithm, "algorithm", "npg", "policy step: vanilla, npg or trpo")
	flags.UintSliceVar(&o.sizes, "sizes", []uint{5000, 10000, 15000, 20000, 30000, 45000}, "minimum batch sizes in samples; batches consist of whole episodes")
	flags.IntVar(&o.rounds, "rounds", 7, "number of updates of each estimator on each batch")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the episodes")
	flags.StringArrayVar(&o.set, "set", nil, "setting of all updates, such as solver=cg; may be repeated")
	flags.Bool("quick", false, "a small task and few sizes")
	return cmd
}

// timing contains the durations of updates on a batch in seconds, one per round: under an estimator's name the updates',
// under that with stepSuffix the policy steps' part; under "steps" the batch's samples.
type timing measured

const stepSuffix = " step"

func (o *wallClockOptions) run(cmd *cobra.Command) error {
	if len(o.sizes) < 2 || repeats(o.sizes) || slices.Contains(o.sizes, 0) || o.rounds < 1 {
		return errors.New("wall-clock: give at least 2 --sizes from 1 on, each once, and at least 1 of --rounds")
	}
	slices.Sort(o.sizes)
	task, err := sim.Lookup(o.env)
	if err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	settings, err := o.settings()
	if err != nil {
		return err
	}
	j, err := newJob(cmd)
	if err != nil {
		return err
	}
	timings, err := o.measure(cmd.Context(), j, task, settings)
	if err != nil {
		return err
	}
	return o.report(j, timings)
}

// settings returns the settings of the updates, by estimator.
func (o *wallClockOptions) settings() (map[string]*config.Settings, error) {
	common, err := parseAssignments(o.set)
	if err != nil {
		return nil, err
	}
	all := map[string]*config.Settings{}
	for _, e := range compared {
		s, err := resolve(append(slices.Concat(common, e.settings), assignment{"env", o.env}, assignment{"algorithm", o.algorithm},
			assignment{"batch", fmt.Sprint(o.sizes[0])})...)
		if err != nil {
			return nil, err
		}
		all[e.directory] = s
	}
	return all, nil
}

// measure times updates on batches of all sizes, unless that was done before.
func (o *wallClockOptions) measure(ctx context.Context, j *job, task sim.Spec, settings map[string]*config.Settings) (timings []timing, err error) {
	computer, err := device.Open(settings["mc"].Device)
	if err != nil {
		return nil, err
	}
	defer computer.Close()
	processor := device.Processor()
	if computer.Distant() {
		processor = computer.Name()
	}
	shape := policy.Shape{Observation: task.ObservationDim, Action: task.ActionDim, Hidden: settings["mc"].Hidden}
	p := &proto.Policy{Hidden: shape.Hidden, Params: shape.Init(streams.New(o.seed, streams.Policy))}
	sampling := session.Sampling{Task: task, Seed: o.seed, Actors: config.AutoActors}
	err = session.Sample(ctx, sampling, func(ctx context.Context, collector *collect.Collector) error {
		for _, size := range o.sizes {
			identity := conditions(settings["uapg"].Identity()).with("batch", size).with("estimator", "all").with("rounds", o.rounds).
				with("seed", o.seed).with("processor", processor).with("cores", device.Cores())
			arrays, err := measureOnce(j.path("units", fmt.Sprintf("size-%d", size)), identity, func() (measured, error) {
				j.log.Info("timing updates", "samples", size, "rounds", o.rounds)
				normalizer := policy.Identity(task.ObservationDim, settings["mc"].Clip)
				p.Iteration, p.Mean, p.Std, p.Clip = uint64(size), normalizer.Mean, normalizer.Std, normalizer.Clip
				batch, err := collector.Collect(ctx, p, int(size))
				if err != nil {
					return nil, err
				}
				return o.time(ctx, computer.Backend, task, settings, batch)
			})
			if err != nil {
				return fmt.Errorf("%d samples: %w", size, err)
			}
			timings = append(timings, timing(arrays))
		}
		return nil
	})
	return timings, err
}

// time times updates on a batch, alternating the estimators. The first round is a warm-up.
func (o *wallClockOptions) time(ctx context.Context, backend compute.Backend, task sim.Spec, settings map[string]*config.Settings,
	batch *collect.Batch) (_ measured, err error) {
	defer compute.Catch(&err)
	moments := policy.NewMoments(task.ObservationDim)
	for _, e := range batch.Episodes {
		moments.Add(e.Observations)
	}
	normalizer := moments.Normalizer(settings["mc"].Clip)
	arrays := measured{"steps": {float64(batch.Steps)}}
	for round := range o.rounds + 1 {
		for _, e := range compared {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			step := 0.0
			took, err := bench.Update(backend, settings[e.directory], task, batch.Episodes, normalizer, func(stage string, took time.Duration) {
				if stage == "policy step" {
					step = took.Seconds()
				}
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			if round > 0 {
				arrays[e.directory] = append(arrays[e.directory], took.Seconds())
				arrays[e.directory+stepSuffix] = append(arrays[e.directory+stepSuffix], step)
			}
		}
	}
	return arrays, nil
}

func (t timing) samples() float64 { return t["steps"][0] }

// median returns that of an estimator's updates, with the interquartile range.
func (t timing) median(e variant) stats.Estimate {
	x := t[e.directory]
	return stats.Estimate{Value: stats.Quantile(x, 0.5), Low: stats.Quantile(x, 0.25), High: stats.Quantile(x, 0.75)}
}

// estimation returns the median time of an update without its policy step.
func (t timing) estimation(e variant) float64 {
	var rest []float64
	for i, took := range t[e.directory] {
		rest = append(rest, took-t[e.directory+stepSuffix][i])
	}
	return stats.Quantile(rest, 0.5)
}

// The bounds of the paper's words.
const (
	comparableFactor = 2    // "negligible overhead", here at most twice Monte Carlo
	linearR2         = 0.99 // of a straight line
)

// report writes the table, the figure and the page.
func (o *wallClockOptions) report(j *job, timings []timing) error {
	p := j.newPage("Wall clock of the updates")
	p.paragraph("%s", wallClockQuestion)
	t := p.csv("wall-clock.csv", "estimator", "samples", "seconds", "seconds_low", "seconds_high", "estimation_seconds", "ratio_to_mc")
	panel := chart.Panel{Title: o.env + ", " + o.algorithm, X: "samples", Y: "seconds an update"}
	lines := map[string]stats.Line{}
	for _, e := range compared {
		s := chart.Series{Name: e.name, Color: e.color, Marks: true}
		for _, x := range timings {
			m := x.median(e)
			t.add(e.directory, x.samples(), m, x.estimation(e), m.Value/x.median(monteCarlo).Value)
			point(&s, x.samples(), m)
		}
		lines[e.directory] = stats.Fit(s.X, s.Y)
		panel.Series = append(panel.Series, s)
	}
	p.draw("wall-clock", "Update time against samples", chart.Figure{{panel}})
	p.paragraph("Medians of %s; the bands hold the middle half of them.", plural(o.rounds, "round"))
	o.tables(p, timings, lines)
	o.findings(p, timings, lines)
	return j.save(p, fmt.Sprintf("Episodes of seed %d under the initial policy. Peak memory so far in this process %.0f MB. `wall-clock.csv` has the figure's points.",
		o.seed, float64(device.PeakMemory())/1e6), here())
}

func (o *wallClockOptions) tables(p *page, timings []timing, lines map[string]stats.Line) {
	p.heading("Times")
	header := []string{"samples"}
	for _, e := range compared {
		header = append(header, e.name, "of which estimation")
	}
	header = append(header, "DBQPG / MC", "UAPG / MC")
	var rows [][]string
	for _, t := range timings {
		row := []string{fmt.Sprintf("%.0f", t.samples())}
		for _, e := range compared {
			row = append(row, fmt.Sprintf("%.3f s", t.median(e).Value), fmt.Sprintf("%.3f s", t.estimation(e)))
		}
		base := t.median(monteCarlo).Value
		rows = append(rows, append(row, figures(t.median(bayesian).Value/base), figures(t.median(aware).Value/base)))
	}
	p.table(header, rows)
	p.paragraph("Straight lines of least squares through these medians:")
	p.WriteString("\n")
	for _, e := range compared {
		l := lines[e.directory]
		p.item("%s: %s ms + %s µs a sample, R² = %.4f", e.name, figures(1e3*l.Intercept), figures(1e6*l.Slope), l.R2)
	}
}

// findings hold the paper's claims against the times.
func (o *wallClockOptions) findings(p *page, timings []timing, lines map[string]stats.Line) {
	p.heading(found)
	least, most := math.Inf(1), 0.0
	for _, t := range timings {
		for _, e := range []variant{bayesian, aware} {
			ratio := t.median(e).Value / t.median(monteCarlo).Value
			least, most = min(least, ratio), max(most, ratio)
		}
	}
	p.paragraph("The paper: DBQPG and UAPG cost little more than Monte Carlo. Here: %s: their updates take %s to %s times as long as Monte Carlo's "+
		"(little means at most %d times).", verdict(most <= comparableFactor), figures(least), figures(most), comparableFactor)
	worst := 1.0
	for _, e := range compared {
		worst = min(worst, lines[e.directory].R2)
	}
	p.paragraph("The paper: the time grows linearly with the samples, for all three. Here: %s: straight lines explain at least %.2f %% of the variance "+
		"(linearly means %.0f %%).", verdict(worst >= linearR2), 100*worst, 100*linearR2)
}
