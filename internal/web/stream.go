package web

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/internal/pause"
)

const (
	// pollEvery is how often a stream looks for something new.
	pollEvery = time.Second
	// aliveEvery is how often a stream says something in any case.
	aliveEvery = 15 * time.Second
	// sendTimeout ends a stream whose reader takes nothing.
	sendTimeout = 30 * time.Second
	// maxStreams bounds the streams at a time.
	maxStreams = 32
)

// streams counts those that are open.
type streams struct{ open atomic.Int32 }

// stream sends server-sent events.
type stream struct {
	w    http.ResponseWriter
	sent time.Time
	last map[string]string // data of the last event of each name
}

// send sends an event unless it is the last of that name again.
func (s *stream) send(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil || s.last[name] == string(data) {
		return err
	}
	s.last[name] = string(data)
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, data))
}

func (s *stream) write(text string) error {
	s.sent = time.Now()
	control := http.NewResponseController(s.w)
	if err := control.SetWriteDeadline(s.sent.Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return control.Flush()
}

// events sends what changes, as server-sent events: with a name, the run and its rows from a number on; without, that the table is not what
// it was.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	if s.streams.open.Add(1); s.streams.open.Load() > maxStreams {
		s.streams.open.Add(-1)
		s.fail(w, r, &failure{http.StatusServiceUnavailable, fmt.Sprintf("%d pages are open: close some", maxStreams)})
		return
	}
	defer s.streams.open.Add(-1)
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the server's is for requests that end
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &stream{w: w, last: map[string]string{}}
	from, _ := strconv.Atoi(r.URL.Query().Get("rows"))
	for err := out.write(": hello\n\n"); err == nil; {
		if r.URL.Query().Get("name") == "" {
			err = s.tell(r, out)
		} else {
			from, err = s.tellRun(r, out, from)
		}
		if err == nil && time.Since(out.sent) > aliveEvery {
			err = out.write(": alive\n\n")
		}
		if err == nil && !pause.For(r.Context(), pollEvery) {
			return
		}
	}
}

// tell sends a number that changes with the table.
func (s *server) tell(r *http.Request, out *stream) error {
	runs, err := s.Source.Runs(r.Context())
	if err != nil {
		return err
	}
	sum := fnv.New64a()
	for i := range runs {
		fmt.Fprintln(sum, runs[i].Name, runs[i].State, runs[i].Iteration, runs[i].Return, runs[i].Best, runs[i].Epoch)
	}
	return out.send("runs", strconv.FormatUint(sum.Sum64(), 36))
}

// tellRun sends a run that has changed, and its rows from a number on. It returns the number of rows.
func (s *server) tellRun(r *http.Request, out *stream, from int) (int, error) {
	run, err := s.find(r)
	if err != nil {
		return from, err
	}
	if err := out.send("run", run); err != nil {
		return from, err
	}
	rows, err := s.rowsOf(r.Context(), run, from)
	if err != nil || rows.Rows == from {
		return from, err
	}
	return rows.Rows, out.send("rows", rows)
}
