package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the description
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

//go:embed openapi.json
var description []byte // of the routes below; a test holds both together

// route is a kind of request.
type route struct {
	pattern, summary string
	needs            right
	parameters       []parameter // of the query
	takes, gives     any         // values of the types of the body and of the answer; nil: none
	answer           func(context.Context, *http.Request) (any, error)
}

type parameter struct {
	name, description string
	of                any // a value of its type
}

// routes lists all requests under /v1.
func (a *api) routes() []route {
	return []route{
		{"POST /v1/commands", "Change something, once if the request is numbered or has an Idempotency-Key",
			look | train | administer, nil, registry.Command{}, registry.Response{}, a.postCommand},
		{"POST /v1/renewals", "Extend a lease", train, nil, client.Renewal{}, registry.Run{},
			withBody(func(ctx context.Context, r client.Renewal) (any, error) { return a.renew(ctx, r) })},
		{"POST /v1/heartbeats", "Report that a learner is alive, or that it leaves", train, nil, client.Heartbeat{},
			struct{}{}, withBody(func(ctx context.Context, h client.Heartbeat) (any, error) {
				return struct{}{}, a.heartbeat(ctx, h)
			})},
		{"GET /v1/runs", "List runs, or wait for some", look, []parameter{
			{"experiment", "only the runs of this one", ""},
			{"state", "only runs in this state", registry.RunState("")},
			{"free", "only runs that a learner may take now", false},
			{"after", "only runs that have changed since the index of an earlier answer", uint64(0)},
			{"wait", "how long to wait for one, in seconds, up to 60", 0.0},
		}, nil, client.Runs{}, a.getRuns},
		{"GET /v1/runs/{name...}", "Return a run", look, nil, nil, registry.Run{},
			func(ctx context.Context, r *http.Request) (any, error) { return a.run(ctx, r.PathValue("name")) }},
		{"GET /v1/experiments", "List the experiments, with the states of their runs", look, nil, nil,
			client.Experiments{},
			func(ctx context.Context, _ *http.Request) (any, error) { return a.experiments(ctx) }},
		{"GET /v1/seen", "List the learners heard of recently", look, nil, nil, client.Seen{},
			func(ctx context.Context, _ *http.Request) (any, error) { return a.seen(ctx) }},
		{"GET /v1/nodes", "List the coordinator's nodes", look, nil, nil, client.Nodes{},
			func(ctx context.Context, _ *http.Request) (any, error) { return a.nodes(ctx) }},
		{"POST /v1/nodes", "Add a node", administer, nil, client.Joining{}, struct{}{},
			withBody(func(ctx context.Context, j client.Joining) (any, error) { return struct{}{}, a.join(ctx, j) })},
		{"POST /v1/nodes/lost", "Remove a node that has lost its directory", administer, nil, client.Joining{},
			client.Lost{},
			withBody(func(ctx context.Context, j client.Joining) (any, error) { return a.lost(ctx, j) })},
		{"DELETE /v1/nodes/{id}", "Remove a node", administer, nil, nil, struct{}{},
			func(ctx context.Context, r *http.Request) (any, error) {
				return struct{}{}, a.leave(ctx, r.PathValue("id"))
			}},
		{"GET /v1/backup", "Return the entire state, for serve --restore", administer, nil, nil, []byte{},
			func(ctx context.Context, _ *http.Request) (any, error) { return a.backup(ctx) }},
	}
}

func (a *api) postCommand(_ context.Context, r *http.Request) (any, error) {
	data, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var c registry.Command
	if err := registry.DecodeStrictly(data, &c); err != nil {
		return nil, client.Errorf(client.Malformed, "not a command: %v", err)
	}
	own := "client " + c.Request.Client
	if key := r.Header.Get("Idempotency-Key"); key != "" && c.Request == (registry.Request{}) {
		c.Request, own = registry.Request{Client: "key", Number: 1}, "key "+key
	}
	if c.Request.Client != "" { // it is its sender's alone
		by := ""
		if r.TLS != nil {
			by = who(r)
		}
		c.Request.Client, c.Request.Hash = hash(by, own), hash(string(data))
	}
	return a.execute(r, c)
}

// hash returns a name for texts.
func hash(texts ...string) string {
	return fmt.Sprintf("%.20x", sha256.Sum256([]byte(strings.Join(texts, "\n"))))
}

func (a *api) getRuns(_ context.Context, r *http.Request) (any, error) {
	q, err := client.ParseQuery(r.URL.Query())
	if err != nil {
		return nil, client.Errorf(client.Malformed, "%v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), q.Wait+timeout)
	defer cancel()
	return a.runs(ctx, q)
}

// checkParameters returns an error if a request has a parameter that its route does not know.
func (route *route) checkParameters(r *http.Request) error {
	for name := range r.URL.Query() {
		if !slices.ContainsFunc(route.parameters, func(p parameter) bool { return p.name == name }) {
			var known []string
			for _, p := range route.parameters {
				known = append(known, p.name)
			}
			return client.Errorf(client.Malformed, "unknown query parameter %.40q: allowed here: %s",
				name, cmp.Or(strings.Join(known, ", "), "none"))
		}
	}
	return nil
}

// withBody returns the handler of requests with a JSON body.
func withBody[T any](answer func(context.Context, T) (any, error)) func(context.Context, *http.Request) (any, error) {
	return func(ctx context.Context, r *http.Request) (any, error) {
		data, err := readBody(r)
		if err != nil {
			return nil, err
		}
		var body T
		if err := registry.DecodeStrictly(data, &body); err != nil {
			return nil, client.Errorf(client.Malformed, "the request cannot be read: %v", err)
		}
		return answer(ctx, body)
	}
}

// handler answers requests over HTTP.
func (a *api) handler() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range a.routes() {
		mux.HandleFunc(route.pattern, a.admit(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, &route) }))
	}
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		write(w, description)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { write(w, []byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		leader := a.Leader()
		if leader.ID == "" {
			http.Error(w, "no leader is known", http.StatusServiceUnavailable)
			return
		}
		write(w, []byte("ok, "+leader.ID+" leads\n"))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, client.Errorf(registry.NotFound, "%s %s does not exist: see docs/coordinator.md", r.Method, r.URL.Path))
	})
	return mux
}

// serve answers one request if its sender has one of the required rights.
func (a *api) serve(w http.ResponseWriter, r *http.Request, route *route) {
	var body bytes.Buffer // read so far
	r.Body = io.NopCloser(io.TeeReader(http.MaxBytesReader(w, r.Body, registry.MaxCommand), &body))
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	err := require(r, route.needs)
	if err == nil {
		err = route.checkParameters(r)
	}
	var result any
	if err == nil {
		result, err = route.answer(ctx, r)
	}
	if err != nil {
		q, _ := client.ParseQuery(r.URL.Query())
		a.forwardOrFail(w, r, &body, err, q.Wait+timeout)
		return
	}
	if r.Method != http.MethodGet && route.needs == administer {
		a.logChange(r, nil)
	}
	if data, raw := result.([]byte); raw {
		w.Header().Set("Content-Type", "application/octet-stream")
		extend(w)
		write(w, data)
		return
	}
	send(w, http.StatusOK, result)
}

// answerTimeout bounds the time to send a large answer, such as a backup.
const answerTimeout = 10 * time.Minute

// extend gives a large answer the time to be sent, in place of the server's WriteTimeout.
func extend(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
}

// forwardOrFail answers a request that failed here: the leader answers it if this node is not the leader.
func (a *api) forwardOrFail(w http.ResponseWriter, r *http.Request, body io.Reader, err error, wait time.Duration) {
	var elsewhere *raftnode.NotLeaderError
	if errors.As(err, &elsewhere) && elsewhere.Leader.URL != "" && r.Header.Get(forwardedHeader) == "" {
		a.forward(w, r, body, elsewhere.Leader, wait)
		return
	}
	a.fail(w, a.failure(err))
}

// logChange records a change and its sender, by the name in the certificate or token. Commits, of which there are many,
// are logged at level debug.
func (a *api) logChange(r *http.Request, c *registry.Command) {
	by, what, level := who(r), r.URL.Path, slog.LevelInfo
	if through := senderOf(r).through; through != "" {
		by += " through " + through
	}
	if c != nil {
		data, _ := registry.EncodeCommand(*c) // it was decoded here
		what = fmt.Sprintf("%.200s", data)
		if c.Commit != nil {
			level = slog.LevelDebug
		}
	}
	a.log.Log(r.Context(), level, "changed", "by", by, "method", r.Method, "what", what)
}

// urls returns the URLs of all nodes.
func (a *api) urls() (urls []string) {
	a.View(func(s *registry.State) {
		for _, n := range s.Nodes {
			urls = append(urls, n.URL)
		}
	})
	return urls
}

// fail sends an error.
func (a *api) fail(w http.ResponseWriter, e *client.Error) {
	send(w, statusOf(e.Code), client.Failure{Error: e})
}

func send(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	write(w, append(data, '\n'))
}

// write sends the rest of an answer. It ignores errors, since the client may be gone.
func write(w http.ResponseWriter, data []byte) { _, _ = w.Write(data) }

func statusOf(code registry.Code) int {
	switch code {
	case registry.Invalid, client.Malformed:
		return http.StatusBadRequest
	case registry.NotFound:
		return http.StatusNotFound
	case client.Unavailable:
		return http.StatusServiceUnavailable
	case client.Forbidden:
		return http.StatusForbidden
	case client.TooLarge:
		return http.StatusRequestEntityTooLarge
	case client.Disk:
		return http.StatusInsufficientStorage
	case client.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusConflict
}

func readBody(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, client.Errorf(client.TooLarge, "the request is too large: %v", err)
	}
	if err != nil {
		return nil, client.Errorf(client.Malformed, "the request cannot be read: %v", err)
	}
	return data, nil
}
