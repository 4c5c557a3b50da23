package play

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/web"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// MaxViewers bounds how many viewers a server has at the same time: each keeps a part of a core busy.
const MaxViewers = 8

const (
	maxCommand      = 1024                 // bytes
	maxReason       = 120                  // bytes, by the protocol
	commandInterval = 5 * time.Millisecond // between a viewer's commands, at least
	writeTimeout    = 5 * time.Second      // of a viewer that does not read
	pingInterval    = 20 * time.Second     // to find out that a viewer of a paused robot is gone
)

// A Server serves viewers.
type Server struct {
	log    *slog.Logger
	ctx    context.Context // ends with the server
	cancel context.CancelFunc
	places chan struct{} // an element for each viewer
}

// New returns a server, which is to be closed.
func New(log *slog.Logger) *Server {
	s := &Server{log: log, places: make(chan struct{}, MaxViewers)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close sends the viewers away. The server serves no more.
func (s *Server) Close() {
	s.cancel()
	for range MaxViewers {
		s.places <- struct{}{}
	}
}

// Handler serves the viewers of a source's runs: the query names the run, by its name or its key in the store, and has
// the parameters of [Server.ServeRun].
func (s *Server) Handler(source web.Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := source.Runs(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		name := r.URL.Query().Get("run")
		i := slices.IndexFunc(all, func(run web.Run) bool { return run.Name == name || home(run.Directory) == name })
		if i < 0 || source.Store() == nil {
			http.Error(w, "there is no such run, or its checkpoints are out of reach", http.StatusNotFound)
			return
		}
		s.ServeRun(w, r, runs.Location{Store: source.Store(), Key: home(all[i].Directory)})
	})
}

// home returns the key of a run, whichever epoch of it has a directory.
func home(directory string) string {
	directory, _ = epochs.Split(directory)
	return epochs.Run(directory)
}

// ServeRun upgrades a request to a WebSocket, and plays a run's policies there until the viewer leaves. The query has
// the initial checkpoint, as runs.Location.Open takes it (default newest), seed, episode, and action (mean or sampled).
// Pages of other origins are refused; a server on this machine alone should also refuse foreign host names (package
// sameorigin).
func (s *Server) ServeRun(w http.ResponseWriter, r *http.Request, run runs.Location) {
	v, err := newViewer(r, run)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	conn, err := websocket.Accept(w, r, nil) // refuses pages of other origins
	if err != nil {
		s.log.Debug("a viewer was refused", "error", err)
		return
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
		err = s.serve(conn, v)
	default:
		err = hopeless{fmt.Errorf("%d pages are watching robots here already: close one of them", MaxViewers)}
		_ = tell(s.ctx, conn, Message{Type: "error", Text: err.Error()}) // it may be gone
	}
	s.log.Debug("a viewer has left", "run", run.Key, "reason", err)
	reason, code := err.Error(), websocket.StatusPolicyViolation
	if s.ctx.Err() != nil {
		reason, code = "the server stops", websocket.StatusGoingAway
	}
	_ = conn.Close(code, reason[:min(len(reason), maxReason)]) // it may be gone
}

// newViewer returns the viewer of a request.
func newViewer(r *http.Request, run runs.Location) (*viewer, error) {
	v := &viewer{run: run, which: runs.NewestCheckpoint, seed: evaluate.DefaultSeed, speed: 1}
	for name, values := range r.URL.Query() {
		var err error
		known := true
		switch value := values[0]; name {
		case "checkpoint":
			v.which, err = value, checkWhich(value)
		case "seed":
			v.seed, err = strconv.ParseUint(value, 10, 53)
		case "episode":
			v.episode, err = strconv.ParseUint(value, 10, 32)
		case "action":
			v.action, known = actions[value]
		}
		if err != nil || !known {
			return nil, fmt.Errorf("%s=%.20q is not possible", name, values[0])
		}
	}
	return v, nil
}

// serve serves a viewer until it leaves, which is the error.
func (s *Server) serve(conn *websocket.Conn, v *viewer) error {
	conn.SetReadLimit(maxCommand)
	group, ctx := errgroup.WithContext(s.ctx)
	commands := make(chan Command)
	v.commands = commands
	v.send = func(m Message) error { return tell(ctx, conn, m) }
	v.draw = func(frame []byte) error { return write(ctx, conn, websocket.MessageBinary, frame) }
	group.Go(func() error { return v.watch(ctx) })
	group.Go(func() error { return receive(ctx, conn, commands) })
	group.Go(func() error { return ping(ctx, conn) })
	return group.Wait()
}

// receive passes the viewer's commands on.
func receive(ctx context.Context, conn *websocket.Conn, commands chan<- Command) error {
	ticker := time.NewTicker(commandInterval)
	defer ticker.Stop()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		c, err := parse(data)
		if err != nil {
			return err
		}
		select {
		case commands <- c:
			<-ticker.C
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ping finds out that the viewer is gone.
func ping(ctx context.Context, conn *websocket.Conn) error {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			ctx, cancel := context.WithTimeout(ctx, writeTimeout)
			err := conn.Ping(ctx)
			cancel()
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func tell(ctx context.Context, conn *websocket.Conn, m Message) error {
	text, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("play: message of type %s: %v", m.Type, err))
	}
	return write(ctx, conn, websocket.MessageText, text)
}

func write(ctx context.Context, conn *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return conn.Write(ctx, kind, data)
}
