// Package cli is the coordinator's command line except for serve. Each command writes a table, or with --json the
// coordinator's answer.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/nearest"
)

const (
	variable            = "DBQPG_COORDINATOR" // the coordinator's URLs, unless --coordinator is given
	credentialsVariable = "DBQPG_CREDENTIALS"
	tokenVariable       = "DBQPG_TOKEN_FILE"
	caVariable          = "DBQPG_CA"
	defaultURL          = "http://127.0.0.1:7070"
	watchWait           = 10 * time.Second // of each of watch's queries
)

// session is a running command.
type session struct {
	*client.Client
	in  io.Reader
	out io.Writer
	options
}

// entry is a command in the table below.
type entry struct {
	use, short  string
	least, most int // arguments
	do          func(*session, context.Context, []string) error
	complete    completion // of the first argument
}

var entries = []entry{
	{"submit SWEEP.yaml...", "Submit experiments; - reads standard input", 1, 100, (*session).submit, nil},
	{"list [EXPERIMENT]", "List the experiments, or the runs of one, or of all with --state or --sort", 0, 1,
		(*session).list, experimentNames},
	{"show NAME", "Show a run or an experiment", 1, 1, (*session).show, bothNames},
	{"watch [NAME]", "Show a run's changes, or an experiment's, or all, until the end; exit with 1 if any failed", 0, 1,
		(*session).watch, bothNames},
	{"metrics RUN", "Write a run's rows of progress.csv", 1, 1, (*session).metrics, runNames},
	{"logs RUN", "Write the logs of a run's workers", 1, 1, (*session).logs, runNames},
	{"fetch RUN", "Copy a run's best policy, its settings and its rows", 1, 1, (*session).fetch, runNames},
	{"cancel NAME", "Cancel a run, or an experiment's runs that have not ended", 1, 1,
		steer(registry.Cancel, "cancelled"), bothNames},
	{"retry NAME", "Queue a failed or cancelled run again, or an experiment's", 1, 1,
		steer(registry.Retry, "queued again"), bothNames},
	{"pause NAME", "Keep a run, or an experiment's runs, from workers until resumed", 1, 1,
		steer(registry.Pause, "paused"), bothNames},
	{"resume NAME", "Queue paused runs again", 1, 1, steer(registry.Resume, "queued again"), bothNames},
	{"extend NAME NUMBER", "Set the total iterations, or --steps, of a run or an experiment's; done runs go on", 2, 2,
		(*session).extend, bothNames},
	{"prioritize NAME PRIORITY", "Set the priority of a run or an experiment's; the highest is taken first", 2, 2,
		(*session).prioritize, bothNames},
	{"drain WORKER", "Have a worker give its run back, and keep runs from it", 1, 1, (*session).drain, learnerNames},
	{"reset RUN", "Start a run anew, or with --to from an earlier checkpoint", 1, 1, (*session).reset, runNames},
	{"remove EXPERIMENT", "Forget an experiment whose runs have ended; checkpoints remain", 1, 1,
		(*session).remove, experimentNames},
	{"nodes", "Show the coordinator's nodes, and the learners", 0, 0, (*session).showNodes, nil},
	{"leave NODE", "Remove a node, such as a lost one, from the cluster", 1, 1, (*session).leave, nodeNames},
	{"backup FILE", "Write the coordinator's entire state to a file, or with - to standard output", 1, 1,
		(*session).backup, nil},
}

// Commands returns the commands.
func Commands() []*cobra.Command {
	var commands []*cobra.Command
	for _, e := range entries {
		commands = append(commands, e.command())
	}
	return commands
}

func (e entry) command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: e.use, Short: e.short, ValidArgsFunction: e.complete.with(&o),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < e.least || len(args) > e.most {
				return fmt.Errorf("%d arguments given; usage: %s", len(args), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args, o) },
	}
	o.define(cmd.Name(), cmd.Flags())
	return cmd
}

// options are the values of flags.
type options struct {
	urls, credentials string
	tokenFile, ca     string
	json, verbose     bool
	timeout           time.Duration
	selection                // of list
	ifNew, dryRun     bool   // of submit
	off               bool   // of drain
	steps             bool   // of extend
	to                string // of fetch, a directory; of reset, an iteration
	last              int    // of metrics
}

// define defines a command's flags.
func (o *options) define(command string, flags *pflag.FlagSet) {
	text := func(value *string, name, variable, usage string) {
		flags.StringVar(value, name, os.Getenv(variable), usage+" (default $"+variable+")")
	}
	flags.StringVar(&o.urls, "coordinator", "",
		"URLs of nodes, separated by commas (default $"+variable+", else "+defaultURL+")")
	text(&o.credentials, "credentials", credentialsVariable, "directory of a user's certificate and keys")
	text(&o.tokenFile, "token-file", tokenVariable, "file of a token, in place of --credentials")
	text(&o.ca, "ca", caVariable, "with --token-file, the authority's ca.pem")
	flags.BoolVar(&o.json, "json", false, "write JSON")
	flags.BoolVar(&o.verbose, "verbose", false, "log retries")
	if command != "watch" {
		flags.DurationVar(&o.timeout, "timeout", 15*time.Second, "how long to keep trying")
	}
	switch command {
	case "submit":
		flags.BoolVar(&o.ifNew, "if-new", false, "do nothing if an experiment of that name exists")
		flags.BoolVar(&o.dryRun, "dry-run", false, "check the sweep and list its runs, without a coordinator")
	case "list":
		o.selection.define(flags)
	case "reset":
		flags.StringVar(&o.to, "to", "", "iteration to resume from, still stored (default the start)")
	case "extend":
		flags.BoolVar(&o.steps, "steps", false, "NUMBER is in environment steps")
	case "drain":
		flags.BoolVar(&o.off, "off", false, "let the worker take runs again")
	case "fetch":
		flags.StringVar(&o.to, "to", "", "directory to write (default the run's name)")
	case "metrics":
		flags.IntVar(&o.last, "last", 0, "number of rows to write, the last ones (default all)")
	}
}

// open returns a client, to be closed by the caller.
func (o *options) open(cmd *cobra.Command) (*client.Client, error) {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	config := client.Config{
		URLs: addresses(o.urls), FailFast: true, Silence: func(err error) { reportSilence(cmd, err) },
		Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
	}
	if o.tokenFile != "" {
		if o.credentials != "" {
			return nil, errors.New("--token-file and --credentials are mutually exclusive")
		}
		var err error
		if config.Token, config.TLS, err = credentials.Token(o.tokenFile, o.ca); err != nil {
			return nil, err
		}
	}
	return client.Open(config, o.credentials)
}

// run runs a command.
func (e entry) run(cmd *cobra.Command, args []string, o options) error {
	c, err := o.open(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := cmd.Context()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	err = e.do(&session{c, cmd.InOrStdin(), cmd.OutOrStdout(), o}, ctx, args)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v from %s: is a majority of the coordinator's nodes running? (%w)",
			o.timeout, strings.Join(addresses(o.urls), ", "), err)
	}
	return err
}

// reportSilence reports that no node answers or, if err is nil, that one does again.
func reportSilence(cmd *cobra.Command, err error) {
	if err != nil {
		cmd.PrintErrf("nobody answers; still trying (%v)\n", err)
		return
	}
	cmd.PrintErrln("the coordinator answers again")
}

func addresses(flag string) []string {
	for _, text := range []string{flag, os.Getenv(variable)} {
		if text != "" {
			return strings.Split(text, ",")
		}
	}
	return []string{defaultURL}
}

func (s *session) submit(ctx context.Context, args []string) error {
	specs := make([]*registry.Spec, len(args))
	for i, name := range args { // all before the first is submitted
		data, err := s.read(name)
		if err != nil {
			return fmt.Errorf("read the sweep: %w", err)
		}
		if specs[i], err = sweep.Parse(data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, spec := range specs {
		if err := s.submitOne(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) submitOne(ctx context.Context, spec *registry.Spec) error {
	if s.dryRun {
		runs := spec.Expand()
		return s.table(runs, plannedTable(runs))
	}
	n, err := s.Submit(ctx, *spec)
	if s.ifNew && errors.Is(err, client.Exists) {
		return s.say(map[string]any{"experiment": spec.Name, "runs": 0}, "%s is there already\n", spec.Name)
	}
	if err != nil {
		return err
	}
	return s.say(map[string]any{"experiment": spec.Name, "runs": n}, "%s: %d runs are queued\n", spec.Name, n)
}

func (s *session) read(name string) ([]byte, error) {
	in := s.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	return io.ReadAll(io.LimitReader(in, sweep.MaxFile+1))
}

// unknown returns the error for an unknown run or experiment, with a suggestion.
func (s *session) unknown(ctx context.Context, name string) error {
	names, err := bothNames(ctx, s.Client)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("there are no experiments yet: submit one")
	}
	if slices.Contains(names, name) {
		return fmt.Errorf("%s is an experiment: name one of its runs (coordinator list %s)", name, name)
	}
	meant, _ := nearest.Name(name, names)
	return fmt.Errorf("there is no run or experiment called %q; did you mean %s?", name, meant)
}

func (s *session) show(ctx context.Context, args []string) error {
	run, err := s.Run(ctx, args[0])
	if err == nil {
		return s.table(run, runDetails(run))
	}
	if !errors.Is(err, client.NotFound) {
		return err
	}
	experiments, err := s.Experiments(ctx)
	if err != nil {
		return err
	}
	for _, e := range experiments {
		if e.Spec.Name == args[0] {
			runs, err := s.Runs(ctx, client.Query{Experiment: args[0]})
			if err != nil {
				return err
			}
			return s.table(e, experimentDetails(&e, runs.Runs))
		}
	}
	return s.unknown(ctx, args[0])
}

// steer returns the command for an action; done describes a run after it.
func steer(action registry.Action, done string) func(*session, context.Context, []string) error {
	return func(s *session, ctx context.Context, args []string) error {
		return s.steer(ctx, registry.Steer{Name: args[0], Action: action}, done)
	}
}

func (s *session) steer(ctx context.Context, o registry.Steer, done string) error {
	return s.change(ctx, o.Name, done, registry.Command{Steer: &o})
}

func (s *session) reset(ctx context.Context, args []string) error {
	reset, done := &registry.Reset{Run: args[0]}, "queued, to begin anew"
	if s.to != "" {
		to, err := strconv.ParseUint(s.to, 10, 64)
		if err != nil {
			return fmt.Errorf("--to %s: want an iteration, whose checkpoint the workers' store still has", s.to)
		}
		reset.To, done = &to, fmt.Sprintf("queued, to go on from iteration %d", to)
	}
	return s.change(ctx, args[0], done, registry.Command{Reset: reset})
}

func (s *session) extend(ctx context.Context, args []string) error {
	n, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number of iterations or steps", args[1])
	}
	length := registry.Length{Iterations: n}
	if s.steps {
		length = registry.Length{Steps: n}
	}
	return s.steer(ctx, registry.Steer{Name: args[0], Action: registry.Extend, Length: length}, "extended")
}

func (s *session) prioritize(ctx context.Context, args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("%q is not a priority, a whole number; for a negative one write -- before it", args[1])
	}
	order := registry.Steer{Name: args[0], Action: registry.Prioritize, Priority: n}
	return s.steer(ctx, order, fmt.Sprint("of priority ", n))
}

func (s *session) drain(ctx context.Context, args []string) error {
	r, err := s.Do(ctx, registry.Command{Drain: &registry.Drain{Learner: args[0], Off: s.off}})
	if err != nil {
		return err
	}
	if s.off {
		return s.say(r, "%s gets runs again\n", args[0])
	}
	return s.say(r, "%s gets no more runs; %d given back\n", args[0], r.Runs)
}

func (s *session) remove(ctx context.Context, args []string) error {
	if run, err := s.Run(ctx, args[0]); err == nil {
		return fmt.Errorf("%s is a run, and only whole experiments are removed: coordinator remove %s", run.Name,
			run.Experiment)
	}
	return s.change(ctx, args[0], "removed", registry.Command{Remove: &registry.Remove{Experiment: args[0]}})
}

// change executes a command about a run or an experiment.
func (s *session) change(ctx context.Context, name, done string, c registry.Command) error {
	r, err := s.Do(ctx, c)
	switch {
	case errors.Is(err, client.NotFound):
		return s.unknown(ctx, name)
	case err != nil:
		return err
	case r.Run != nil:
		return s.say(r, "%s is %s\n", name, done)
	}
	return s.say(r, "%s: %d runs are %s\n", name, r.Runs, done)
}

// watch shows runs as they change, until all have ended, and returns an error unless all succeeded.
func (s *session) watch(ctx context.Context, args []string) error {
	q, only := client.Query{}, ""
	if len(args) > 0 {
		q.Experiment = args[0]
		if run, err := s.Run(ctx, args[0]); err == nil {
			q.Experiment, only = run.Experiment, run.Name
		} else if !errors.Is(err, client.NotFound) {
			return err
		}
	}
	states, first := map[string]registry.RunState{}, true
	over := func() bool {
		for _, state := range states {
			if !state.Over() {
				return false
			}
		}
		return true
	}
	for ; first || !over(); first = false {
		runs, err := s.Runs(ctx, q)
		if err != nil {
			return err
		}
		if first && len(runs.Runs) == 0 {
			return s.list(ctx, args) // reports what exists instead
		}
		for _, r := range runs.Runs {
			if only != "" && r.Name != only {
				continue
			}
			states[r.Name] = r.State
			if err := s.line(&r); err != nil {
				return err
			}
		}
		q.After, q.Wait = runs.Index, watchWait
	}
	counts := map[registry.RunState]int{}
	for _, state := range states {
		counts[state]++
	}
	if failed, cancelled := counts[registry.Failed], counts[registry.Cancelled]; failed+cancelled > 0 {
		return fmt.Errorf("of %d runs, %d failed and %d were cancelled", len(states), failed, cancelled)
	}
	return nil
}

func (s *session) showNodes(ctx context.Context, _ []string) error {
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return err
	}
	seen, err := s.Seen(ctx)
	if err != nil {
		return err
	}
	answer := struct {
		Nodes []client.Node    `json:"nodes"`
		Seen  []client.Learner `json:"seen"`
	}{nodes, seen.Seen}
	if err := s.table(answer, nodeTable(nodes, seen.Now)); err != nil || s.json || len(seen.Seen) == 0 {
		return err
	}
	fmt.Fprintln(s.out)
	return s.table(nil, seenTable(seen))
}

func (s *session) leave(ctx context.Context, args []string) error {
	if err := s.Leave(ctx, args[0]); err != nil {
		return err
	}
	return s.say(map[string]any{"left": args[0]}, "%s has left\n", args[0])
}

func (s *session) backup(ctx context.Context, args []string) error {
	var data strings.Builder
	if err := s.Backup(ctx, &data); err != nil {
		return err
	}
	if args[0] == "-" {
		_, err := io.WriteString(s.out, data.String())
		return err
	}
	if err := atomicfile.Write(args[0], []byte(data.String())); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return s.say(map[string]any{"bytes": data.Len()}, "%s: %d bytes\n", args[0], data.Len())
}

// say writes a sentence, or with --json its data.
func (s *session) say(facts any, format string, args ...any) error {
	if s.json {
		return s.writeJSON(facts)
	}
	_, err := fmt.Fprintf(s.out, format, args...)
	return err
}

func (s *session) writeJSON(v any) error {
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
