package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	buildsName = "builds.yaml"
	// logSize is how much of the end of a log is shown, in bytes.
	logSize = 64 << 10
	// maxEvents bounds the events shown of a run: the newest.
	maxEvents = 200
	// maxRows bounds the rows of an answer.
	maxRows = 1000
)

// Logger is a [Source] that has the logs of runs itself.
type Logger interface {
	// Tail returns the end of what was logged of a run.
	Tail(run *Run) []byte
}

// Details is what the page of a run shows besides its rows.
type Details struct {
	Run      *Run              `json:"run"`
	Settings map[string]string `json:"settings"` // all of them
	Files    []File            `json:"files"`    // checkpoints and tables, to download
	Events   []Event           `json:"events"`   // the newest last
	// Evaluations are the columns of evaluations.csv.
	Evaluations map[string]Numbers `json:"evaluations"`
}

// File is a file of a run.
type File struct {
	Name     string    `json:"name"` // in the run's directory
	Size     int64     `json:"size"` // bytes
	Modified time.Time `json:"modified"`
}

// Event is something that happened to a run: it was begun or resumed, lost, or logged a warning or an error.
type Event struct {
	Time  time.Time `json:"time,omitzero"`
	Level string    `json:"level"` // as of a log: info, warn or error
	Text  string    `json:"text"`
}

// find returns a run by its name.
func (s *server) find(r *http.Request) (*Run, error) {
	name := r.URL.Query().Get("name")
	runs, err := s.Source.Runs(r.Context())
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if runs[i].Name == name {
			return &runs[i], nil
		}
	}
	return nil, &failure{http.StatusNotFound, fmt.Sprintf("there is no run called %q", name)}
}

func (s *server) run(r *http.Request) (any, error) {
	run, err := s.find(r)
	if err != nil {
		return nil, err
	}
	d := &Details{Run: run, Settings: run.Settings, Evaluations: map[string]Numbers{}, Files: []File{}}
	if s.columns == nil || run.Directory == "" {
		d.Events = s.eventsOf(r.Context(), run, nil)
		return d, nil
	}
	in := s.Source.Store()
	text, err := in.Get(r.Context(), path.Join(run.Directory, config.FileName))
	if err == nil {
		d.Settings = parseSettings(string(text))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	evaluations, err := s.columns.read(r.Context(), run.Directory, evaluationsName)
	if err != nil {
		return nil, err
	}
	for name, values := range evaluations {
		d.Evaluations[name] = values[max(0, len(values)-maxRows):]
	}
	if d.Files, err = s.files(r.Context(), run); err != nil {
		return nil, err
	}
	builds, err := in.Get(r.Context(), path.Join(run.Directory, buildsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d.Events = s.eventsOf(r.Context(), run, builds)
	return d, nil
}

// files returns a run's files.
func (s *server) files(ctx context.Context, run *Run) ([]File, error) {
	if run.Directory == "" || s.columns == nil {
		return nil, nil
	}
	there, err := s.Source.Store().Files(ctx, run.Directory)
	files := []File{}
	for _, f := range there {
		name := f.Key
		if run.Directory != "." {
			name = strings.TrimPrefix(f.Key, run.Directory+"/")
		}
		if !strings.HasPrefix(path.Base(name), ".") {
			files = append(files, File{name, f.Size, f.Modified})
		}
	}
	return files, err
}

// eventsOf returns what is known to have happened to a run, by its builds.yaml, its logs and what is said of it.
func (s *server) eventsOf(ctx context.Context, run *Run, builds []byte) []Event {
	events := []Event{}
	var starts []struct {
		Iteration        uint64
		Program, Machine string
	}
	if yaml.Unmarshal(builds, &starts) == nil { // else it is no file of ours, and says nothing
		for _, b := range starts {
			events = append(events, Event{Level: "info", Text: fmt.Sprintf("from iteration %d on: %s, on %s", b.Iteration, b.Program, b.Machine)})
		}
	}
	for _, l := range s.logs(ctx, run) {
		events = append(events, l.events()...)
	}
	if run.State == Lost {
		events = append(events, Event{run.Heard, "warn", fmt.Sprintf("%s was last heard of; its lease has expired, and another learner may take the run", run.Learner)})
	}
	if run.Reason != "" {
		events = append(events, Event{run.Heard, "error", run.Reason})
	}
	return events[max(0, len(events)-maxEvents):]
}

// runLog is the end of a log of a run: of one epoch, if it has several.
type runLog struct {
	epoch string
	text  []byte
}

// logs returns the ends of the logs of a run's last epochs, the last at the end.
func (s *server) logs(ctx context.Context, run *Run) []runLog {
	if own, ok := s.Source.(Logger); ok {
		return []runLog{{text: own.Tail(run)}}
	}
	const shown = 8
	if run.Logs == "" || s.columns == nil {
		return nil
	}
	files, err := s.Source.Store().Files(ctx, run.Logs)
	if err != nil {
		s.Log.Warn("the logs of a run", "run", run.Name, "error", err)
		return nil
	}
	slices.SortFunc(files, func(a, b store.File) int { return cmp.Compare(epochs.OfLog(a.Key), epochs.OfLog(b.Key)) })
	var logs []runLog
	for _, f := range files[max(0, len(files)-shown):] {
		text, err := s.Source.Store().GetFrom(ctx, f.Key, max(0, f.Size-logSize))
		if err != nil {
			continue // it was removed meanwhile
		}
		if f.Size > logSize {
			_, text, _ = bytes.Cut(text, []byte("\n"))
		}
		logs = append(logs, runLog{strings.TrimSuffix(path.Base(f.Key), ".txt"), text})
	}
	return logs
}

// logLine is a line as slog writes it.
var logLine = regexp.MustCompile(`^time=(\S+) level=(\S+) msg=("(?:[^"\\]|\\.)*"|\S+) ?(.*)$`)

// events returns an epoch's first line, and all warnings and errors.
func (l *runLog) events() []Event {
	var events []Event
	for line := range strings.Lines(string(l.text)) {
		m := logLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		level, message := strings.ToLower(m[2]), m[3]
		if text, err := strconv.Unquote(message); err == nil {
			message = text
		}
		first := l.epoch != "" && len(events) == 0
		if first {
			message = l.epoch + ": " + message
		}
		if at, err := time.Parse(time.RFC3339Nano, m[1]); err == nil && (first || level == "warn" || level == "error") {
			events = append(events, Event{at, level, strings.TrimSpace(message + " " + m[4])})
		}
	}
	return events
}

// log answers with the end of the newest log.
func (s *server) log(r *http.Request) (any, error) {
	run, err := s.find(r)
	if err != nil {
		return nil, err
	}
	var text []byte
	if logs := s.logs(r.Context(), run); len(logs) > 0 {
		text = logs[len(logs)-1].text
	}
	return map[string]string{"text": strings.ToValidUTF8(string(text), "?")}, nil
}

// Rows are the columns of a run's progress.csv: those from a row on, or means over all of them.
type Rows struct {
	From    int                `json:"from"`
	Rows    int                `json:"rows"` // that there are in all
	Columns map[string]Numbers `json:"columns"`
}

// rows answers with at most [maxPoints] rows, each the mean of as many adjacent ones as are necessary.
func (s *server) rows(r *http.Request) (any, error) {
	run, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return s.rowsOf(r.Context(), run, -1)
}

// rowsOf returns the rows from one on, or means over all if from is negative.
func (s *server) rowsOf(ctx context.Context, run *Run, from int) (*Rows, error) {
	answer := &Rows{Columns: map[string]Numbers{}}
	if run.Directory == "" || s.columns == nil {
		return answer, nil
	}
	found, err := s.columns.read(ctx, run.Directory, progressName)
	if err != nil {
		return nil, err
	}
	for name, values := range found {
		answer.Rows = len(values)
		if from < 0 {
			answer.Columns[name] = thinned(values)
			continue
		}
		answer.From = max(min(from, len(values)), len(values)-maxRows)
		answer.Columns[name] = values[answer.From:]
	}
	return answer, nil
}

// thinned returns means of as many adjacent values as leave at most [maxPoints]. Values that are missing do not count.
func thinned(values []float32) Numbers {
	width := (len(values) + maxPoints - 1) / maxPoints
	if width <= 1 {
		return values
	}
	var out Numbers
	for part := range slices.Chunk(values, width) {
		sum, n := 0.0, 0
		for _, v := range part {
			if v == v {
				sum += float64(v)
				n++
			}
		}
		out = append(out, float32(sum/float64(n))) // NaN if there is none
	}
	return out
}

// file sends one of a run's files.
func (s *server) file(w http.ResponseWriter, r *http.Request) {
	run, err := s.find(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	wanted := r.URL.Query().Get("file")
	files, err := s.files(r.Context(), run)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if !slices.ContainsFunc(files, func(f File) bool { return f.Name == wanted }) {
		s.fail(w, r, &failure{http.StatusNotFound, fmt.Sprintf("%s has no file %q: it may have been removed", run.Name, wanted)})
		return
	}
	s.downloads.Lock() // one at a time: a file is in memory
	defer s.downloads.Unlock()
	data, err := s.Source.Store().Get(r.Context(), path.Join(run.Directory, wanted))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadTimeout)) // else the server's holds
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", strings.ReplaceAll(run.Name, "/", "_")+"_"+path.Base(wanted)))
	_, _ = w.Write(data) // the client may be gone
}

// downloadTimeout is how long a file may take to be sent.
const downloadTimeout = 10 * time.Minute
