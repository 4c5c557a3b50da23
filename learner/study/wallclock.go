package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/bench"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
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

	onlyReport bool
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
	flags.BoolVar(&o.onlyReport, "only-report", false, "write the page from wall-clock.csv; measure nothing")
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
	task, err := config.LookupTask(o.env)
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
	if !o.onlyReport {
		timings, err := o.measure(cmd.Context(), j, task, settings)
		if err != nil {
			return err
		}
		if err := o.publish(j, timings); err != nil {
			return err
		}
	}
	return o.report(j)
}

// settings returns the settings of the updates, by estimator.
func (o *wallClockOptions) settings() (map[string]*config.Settings, error) {
	common, err := parseAssignments(o.set)
	if err != nil {
		return nil, err
	}
	all := map[string]*config.Settings{}
	for _, e := range compared {
		s, err := resolve(append(slices.Concat([]assignment{papers}, common, e.settings), assignment{"env", o.env},
			assignment{"algorithm", o.algorithm}, assignment{"batch", fmt.Sprint(o.sizes[0])})...)
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
	params := shape.Init(streams.New(o.seed, streams.Policy), settings["mc"].InitialStd.Of(task))
	p := &proto.Policy{Hidden: shape.Hidden, Params: params}
	sampling := session.Sampling{Task: task, Seed: o.seed, Actors: config.AutoActors}
	err = session.Sample(ctx, sampling, func(ctx context.Context, collector *collect.Collector) error {
		for _, size := range o.sizes {
			identity := conditions(settings["uapg"].Identity()).with("batch", size).with("estimator", "all").with("rounds", o.rounds).
				with("seed", o.seed).with("processor", processor).with("cores", device.Cores())
			arrays, err := measureOnce(j.path("units", fmt.Sprintf("size-%d", size)), identity, func() (measured, error) {
				j.log.Info("timing updates", "samples", size, "rounds", o.rounds)
				normalizer := policy.Identity(task.ObservationDim, settings["mc"].Clip)
				p.Batch, p.Mean, p.Std, p.Clip = uint64(size), normalizer.Mean, normalizer.Std, normalizer.Clip
				batch, err := collector.Collect(ctx, collect.Order{Policy: p, Steps: int(size)})
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

// speed is an estimator's updates on a batch: a row of wall-clock.csv.
type speed struct {
	samples    float64
	update     stats.Estimate // seconds: the median, with the interquartile range
	estimation float64        // seconds of an update without its policy step: the median
}

func (t timing) speed(e variant) speed {
	x := t[e.directory]
	rest := make([]float64, len(x))
	for i, took := range x {
		rest[i] = took - t[e.directory+stepSuffix][i]
	}
	return speed{t["steps"][0], stats.Estimate{Value: stats.Quantile(x, 0.5), Low: stats.Quantile(x, 0.25), High: stats.Quantile(x, 0.75)}, stats.Quantile(rest, 0.5)}
}

// wallClockName is that of the page's table, its record and its figure.
const wallClockName = "wall-clock"

var speedColumns = []string{"estimator", "samples", "seconds", "seconds_low", "seconds_high", "estimation_seconds"}

// publish writes what was measured, and what with.
func (o *wallClockOptions) publish(j *job, timings []timing) error {
	t := newTable(wallClockName+".csv", speedColumns...)
	for _, e := range compared {
		for _, timing := range timings {
			s := timing.speed(e)
			t.add(e.directory, s.samples, s.update, s.estimation)
		}
	}
	text, err := yaml.Marshal(record{
		Builds: []runs.Build{{Program: device.Versions(), Machine: device.Machine()}},
		Note:   fmt.Sprintf("Peak memory so far in this process %.0f MB.", float64(device.PeakMemory())/1e6),
	})
	return errors.Join(err, atomicfile.Write(j.path(wallClockName+".yaml"), text), t.save(j))
}

// speeds are the rows of wall-clock.csv, by estimator and size.
type speeds map[string][]speed

func readSpeeds(j *job) (speeds, error) {
	all := speeds{}
	err := readRows(j.path(wallClockName+".csv"), speedColumns, func(row []string) error {
		var x [5]float64
		for i, text := range row[1:] {
			var err error
			if x[i], err = strconv.ParseFloat(text, 64); err != nil {
				return err
			}
		}
		all[row[0]] = append(all[row[0]], speed{x[0], stats.Estimate{Value: x[1], Low: x[2], High: x[3]}, x[4]})
		return nil
	})
	for _, e := range compared {
		if err == nil && (len(all[e.directory]) < 2 || len(all[e.directory]) != len(all[monteCarlo.directory])) {
			err = fmt.Errorf("%s has too few rows of %s", j.path(wallClockName+".csv"), e.directory)
		}
	}
	return all, err
}

// ratios returns how many times as long as Monte Carlo's an estimator's updates take, and their estimation alone.
func (s speeds) ratios(e variant, i int) (update, estimation float64) {
	own, base := s[e.directory][i], s[monteCarlo.directory][i]
	return own.update.Value / base.update.Value, own.estimation / base.estimation
}

// The bounds of the paper's words.
const (
	comparableFactor = 2    // "negligible overhead", here at most twice Monte Carlo
	linearR2         = 0.99 // of a straight line
)

// report writes the figure and the page.
func (o *wallClockOptions) report(j *job) error {
	all, err := readSpeeds(j)
	if err != nil {
		return err
	}
	var made record
	text, err := os.ReadFile(j.path(wallClockName + ".yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &made)
	}
	if err == nil && len(made.Builds) == 0 {
		err = errors.New("it does not say what was measured")
	}
	if err != nil {
		return fmt.Errorf("%s.yaml: %w", wallClockName, err)
	}
	p := j.newPage("Wall clock of the updates")
	p.paragraph("%s", wallClockQuestion)
	panel := chart.Panel{Title: o.env + ", " + o.algorithm, X: "samples", Y: "seconds an update"}
	for _, e := range compared {
		whole, part := chart.Series{Name: e.name, Color: e.color, Marks: true}, chart.Series{Name: e.name + ", estimation", Color: e.color, Marks: true, Dashed: true}
		for _, x := range all[e.directory] {
			point(&whole, x.samples, x.update)
			part.X, part.Y = append(part.X, x.samples), append(part.Y, x.estimation)
		}
		panel.Series = append(panel.Series, whole, part)
	}
	p.draw(wallClockName, "Update time against samples", chart.Figure{{panel}})
	p.paragraph("Medians of %s; the bands hold the middle half of them.", plural(o.rounds, "round"))
	lines := map[string]stats.Line{}
	for i, e := range compared {
		whole := panel.Series[2*i]
		lines[e.directory] = stats.Fit(whole.X, whole.Y)
	}
	o.tables(p, all, lines)
	o.findings(p, all, lines)
	return j.save(p, fmt.Sprintf("Episodes of seed %d under the initial policy. %s `wall-clock.csv` has the figure's points.", o.seed, made.Note),
		made.Builds[0].Program+". "+made.Builds[0].Machine)
}

func (o *wallClockOptions) tables(p *page, all speeds, lines map[string]stats.Line) {
	p.heading("Times")
	header := []string{"samples"}
	for _, e := range compared {
		header = append(header, e.name, "of which estimation")
	}
	header = append(header, "DBQPG / MC", "estimation alone", "UAPG / MC", "estimation alone")
	var rows [][]string
	for i, base := range all[monteCarlo.directory] {
		row := []string{fmt.Sprintf("%.0f", base.samples)}
		for _, e := range compared {
			row = append(row, fmt.Sprintf("%.3f s", all[e.directory][i].update.Value), fmt.Sprintf("%.3f s", all[e.directory][i].estimation))
		}
		for _, e := range []variant{bayesian, aware} {
			update, estimation := all.ratios(e, i)
			row = append(row, figures(update), figures(estimation))
		}
		rows = append(rows, row)
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
func (o *wallClockOptions) findings(p *page, all speeds, lines map[string]stats.Line) {
	p.heading(found)
	var updates, estimations []float64
	for i := range all[monteCarlo.directory] {
		for _, e := range []variant{bayesian, aware} {
			update, estimation := all.ratios(e, i)
			updates, estimations = append(updates, update), append(estimations, estimation)
		}
	}
	p.paragraph("The paper: DBQPG and UAPG cost little more than Monte Carlo. Here: %s: their updates take %s to %s times as long as Monte Carlo's "+
		"(little means at most %d times). The estimation alone, without the policy's step, takes %s to %s times as long.", verdict(slices.Max(updates) <= comparableFactor),
		figures(slices.Min(updates)), figures(slices.Max(updates)), comparableFactor, figures(slices.Min(estimations)), figures(slices.Max(estimations)))
	worst := 1.0
	for _, e := range compared {
		worst = min(worst, lines[e.directory].R2)
	}
	straight := verdict(worst >= linearR2)
	if len(all[monteCarlo.directory]) < 3 {
		straight = "**cannot tell**, of two sizes"
	}
	p.paragraph("The paper: the time grows linearly with the samples, for all three. Here: %s: straight lines explain at least %.2f %% of the variance "+
		"(linearly means %.0f %%).", straight, 100*worst, 100*linearR2)
}
