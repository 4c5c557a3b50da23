package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	// logSize is how much of the end of a log is shown, in bytes.
	logSize = 64 << 10
	// maxEvents bounds the events shown of a run: the newest.
	maxEvents = 200
	// maxRows bounds the rows of an answer.
	maxRows = 1000
)

// Details describes a run on its page, in addition to its rows.
type Details struct {
	Run      *Run              `json:"run"`
	Settings map[string]string `json:"settings"` // all of them
	Files    []File            `json:"files"`    // checkpoints, tables and logs, to download
	Events   []Event           `json:"events"`   // the newest last
	// Evaluations are the columns of evaluations.csv.
	Evaluations map[string]Numbers `json:"evaluations"`
}

// File is a file of a run: in its directory, or under logs/ one of its workers' logs.
type File struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"` // bytes
	Modified time.Time `json:"modified"`

	key string // in the store
}

// Event is a change in a run's life, a start, a resumption or a loss, or a warning or an error in its log.
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
	d := &Details{Run: run, Settings: run.Settings, Evaluations: map[string]Numbers{}}
	if d.Files, err = s.files(r.Context(), run); err != nil {
		return nil, err
	}
	var builds []byte
	if s.columns != nil && run.Directory != "" {
		read := func(name string) ([]byte, error) {
			data, err := readSmall(r.Context(), s.Source.Store(), path.Join(run.Directory, name))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return data, err
		}
		settings, err := read(config.FileName)
		if err != nil {
			return nil, err
		}
		if settings != nil {
			d.Settings = parseSettings(string(settings))
		}
		evaluations, err := s.columns.read(r.Context(), run.Directory, progress.EvaluationsName)
		if err != nil {
			return nil, err
		}
		for name, values := range evaluations {
			d.Evaluations[name] = values[max(0, len(values)-maxRows):]
		}
		if builds, err = read(progress.BuildsName); err != nil {
			return nil, err
		}
	}
	d.Events = s.eventsOf(r.Context(), run, builds, d.Files)
	return d, nil
}

// logsPrefix begins the names of workers' logs.
const logsPrefix = "logs/"

// files returns a run's files.
func (s *server) files(ctx context.Context, run *Run) ([]File, error) {
	files := []File{}
	for prefix, directory := range map[string]string{"": run.Directory, logsPrefix: run.Logs} {
		if directory == "" || s.columns == nil {
			continue
		}
		there, err := s.Source.Store().Files(ctx, directory)
		if err != nil {
			return nil, err
		}
		for _, f := range there {
			name := f.Key
			if directory != "." {
				name = strings.TrimPrefix(f.Key, directory+"/")
			}
			if !strings.HasPrefix(path.Base(name), ".") && !store.Hidden(f.Key) {
				files = append(files, File{prefix + name, f.Size, f.Modified, f.Key})
			}
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// eventsOf returns a run's events, from its builds.yaml, its logs and its state.
func (s *server) eventsOf(ctx context.Context, run *Run, builds []byte, files []File) []Event {
	events := []Event{}
	var starts []struct {
		Iteration        uint64
		Program, Machine string
	}
	if yaml.Unmarshal(builds, &starts) == nil { // else it is no file of ours, and says nothing
		for _, b := range starts {
			text := fmt.Sprintf("from iteration %d on: %s, on %s", b.Iteration, b.Program, b.Machine)
			events = append(events, Event{Level: "info", Text: text})
		}
	}
	for _, l := range s.logs(ctx, files) {
		events = append(events, l.events()...)
	}
	if run.State == Lost {
		text := run.Learner + " was last heard of; its lease has expired, and another learner may take the run"
		events = append(events, Event{run.Heard, "warn", text})
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

// logs returns the ends of the last logs among a run's files, the last at the end.
func (s *server) logs(ctx context.Context, files []File) (logs []runLog) {
	const shown = 8
	files = slices.DeleteFunc(slices.Clone(files), func(f File) bool {
		return f.Name != progress.LogName && !strings.HasPrefix(f.Name, logsPrefix)
	})
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(epochs.OfLog(a.key), epochs.OfLog(b.key)) })
	for _, f := range files[max(0, len(files)-shown):] {
		text, err := s.Source.Store().GetFrom(ctx, f.key, max(0, f.Size-logSize))
		if err != nil {
			continue // it was removed meanwhile
		}
		if f.Size > logSize {
			_, text, _ = bytes.Cut(text, []byte("\n"))
		}
		epoch := ""
		if f.Name != progress.LogName {
			epoch = strings.TrimSuffix(path.Base(f.Name), ".txt")
		}
		logs = append(logs, runLog{epoch, text})
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
	files, err := s.files(r.Context(), run)
	if err != nil {
		return nil, err
	}
	var text []byte
	if logs := s.logs(r.Context(), files); len(logs) > 0 {
		text = logs[len(logs)-1].text
	}
	return map[string]string{"text": strings.ToValidUTF8(string(text), "?")}, nil
}

// Rows are the columns of a run's progress.csv: those from a row on, or means over all of them.
type Rows struct {
	Run     *Run               `json:"run"`
	From    int                `json:"from"`
	Rows    int                `json:"rows"` // that there are in all
	Columns map[string]Numbers `json:"columns"`
}

// rows answers with a run and its rows from the number in from on or, without from, with at most [maxPoints] rows, each
// the mean of as many adjacent ones as are necessary.
func (s *server) rows(r *http.Request) (any, error) {
	run, err := s.find(r)
	if err != nil {
		return nil, err
	}
	answer := &Rows{Run: run, Columns: map[string]Numbers{}}
	if run.Directory == "" || s.columns == nil {
		return answer, nil
	}
	found, err := s.columns.read(r.Context(), run.Directory, progress.RowsName)
	if err != nil {
		return nil, err
	}
	from, thin := natural(r.URL.Query().Get("from"), 0), !r.URL.Query().Has("from")
	for name, values := range found {
		answer.Rows = len(values)
		if thin {
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
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == wanted })
	if i < 0 {
		text := fmt.Sprintf("%s has no file %q: it may have been removed", run.Name, wanted)
		if s.columns == nil {
			text = "this server does not know the runs' files: start it with --checkpoints"
		}
		s.fail(w, r, &failure{http.StatusNotFound, text})
		return
	}
	file, err := s.Source.Store().Open(r.Context(), files[i].key, 0)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer file.Close()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadTimeout)) // else the server's holds
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(files[i].Size, 10))
	name := strings.ReplaceAll(run.Name, "/", "_") + "_" + path.Base(wanted)
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	_, _ = io.CopyN(w, file, files[i].Size) // if less is sent, the server ends the connection
}

// downloadTimeout is how long a file may take to be sent.
const downloadTimeout = 10 * time.Minute
