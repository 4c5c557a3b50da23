package api

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
	"github.com/dbqpg/dbqpg/internal/sameorigin"
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

// pages are the parameters of lists that are answered in parts.
var pages = []parameter{
	{"limit", "at most so many; the answer then says which page is next", 0},
	{"page", "next of an earlier answer", ""},
}

// routes lists all requests under /v1.
func (a *API) routes() []route {
	return []route{
		{"POST /v1/commands", "Change something, once if the request is numbered or has an Idempotency-Key", look | train | administer,
			nil, registry.Command{}, registry.Response{}, a.postCommand},
		{"POST /v1/renewals", "Extend a lease", train, nil, client.Renewal{}, registry.Run{},
			withBody(func(ctx context.Context, r client.Renewal) (any, error) { return a.renew(ctx, r) })},
		{"POST /v1/heartbeats", "Report that a learner is alive, or that it leaves", train, nil, client.Heartbeat{}, struct{}{},
			withBody(func(ctx context.Context, h client.Heartbeat) (any, error) { return struct{}{}, a.heartbeat(ctx, h) })},
		{"GET /v1/runs", "List runs, or wait for some", look, append([]parameter{
			{"experiment", "only the runs of this one", ""},
			{"state", "only runs in this state", registry.RunState("")},
			{"free", "only runs that a learner may take now", false},
			{"after", "only runs that have changed since the index of an earlier answer", uint64(0)},
			{"wait", "how long to wait for one: seconds, up to 60, or with a unit, such as 500ms", ""},
		}, pages...), nil, client.Runs{}, a.getRuns},
		{"GET /v1/runs/{name...}", "Return a run", look, nil, nil, registry.Run{},
			func(ctx context.Context, r *http.Request) (any, error) { return a.run(ctx, r.PathValue("name")) }},
		{"GET /v1/experiments", "List the experiments, with the states of their runs", look, pages, nil, client.Experiments{},
			func(ctx context.Context, r *http.Request) (any, error) {
				q, err := query(r)
				if err != nil {
					return nil, err
				}
				return a.experiments(ctx, q)
			}},
		{"GET /v1/seen", "List the learners heard of recently", look, nil, nil, client.Seen{},
			func(ctx context.Context, _ *http.Request) (any, error) { return a.seen(ctx) }},
		{"GET /v1/nodes", "List the coordinator's nodes", look, nil, nil, client.Nodes{},
			func(ctx context.Context, _ *http.Request) (any, error) { return a.nodes(ctx) }},
		{"POST /v1/nodes", "Add a node", administer, nil, client.Joining{}, struct{}{},
			withBody(func(ctx context.Context, j client.Joining) (any, error) { return struct{}{}, a.join(ctx, j) })},
		{"POST /v1/nodes/lost", "Remove a node that has lost its directory", administer, nil, client.Joining{}, client.Lost{},
			withBody(func(ctx context.Context, j client.Joining) (any, error) { return a.lost(ctx, j) })},
		{"DELETE /v1/nodes/{id}", "Remove a node", administer, nil, nil, struct{}{},
			func(ctx context.Context, r *http.Request) (any, error) {
				return struct{}{}, a.leave(ctx, r.PathValue("id"))
			}},
		{"GET /v1/backup", "Return the entire state, for serve --restore", administer, nil, nil, []byte{},
			func(ctx context.Context, _ *http.Request) (any, error) { return a.backup(ctx) }},
	}
}

func (a *API) postCommand(ctx context.Context, r *http.Request) (any, error) {
	data, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var c registry.Command
	if err := registry.DecodeStrictly(data, &c); err != nil {
		return nil, &client.Error{Code: client.Malformed, Message: "not a command: " + err.Error()}
	}
	if err := require(ctx, rightFor(&c)); err != nil {
		return nil, err
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" && c.Request == (registry.Request{}) {
		c.Request = registry.Request{Client: fmt.Sprintf("key-%.20x", sha256.Sum256([]byte(key))), Number: 1}
	}
	response, err := a.command(ctx, c)
	if err != nil {
		return nil, err
	}
	if refused := response.Refusal; refused != nil {
		return nil, &client.Error{Code: refused.Code, Message: refused.Message}
	}
	a.logChange(r, &c)
	return response, nil
}

func (a *API) getRuns(_ context.Context, r *http.Request) (any, error) {
	q, err := query(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), q.Wait+timeout)
	defer cancel()
	return a.runs(ctx, q)
}

func query(r *http.Request) (client.Query, error) {
	q, err := client.ParseQuery(r.URL.Query())
	if err != nil {
		return q, &client.Error{Code: client.Malformed, Message: err.Error()}
	}
	return q, nil
}

// checkParameters returns an error if a request has one that its route does not know.
func (route *route) checkParameters(r *http.Request) error {
	for name := range r.URL.Query() {
		if !slices.ContainsFunc(route.parameters, func(p parameter) bool { return p.name == name }) {
			var known []string
			for _, p := range route.parameters {
				known = append(known, p.name)
			}
			allowed := cmp.Or(strings.Join(known, ", "), "none")
			return &client.Error{Code: client.Malformed, Message: fmt.Sprintf("unknown query parameter %.40q: allowed here: %s", name, allowed)}
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
			return nil, &client.Error{Code: client.Malformed, Message: "the request cannot be read: " + err.Error()}
		}
		return answer(ctx, body)
	}
}

// Handler answers requests over HTTP. A client with a certificate or a token may do what its role permits.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range a.routes() {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, &route) })
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
		a.fail(w, &client.Error{Code: registry.NotFound, Message: r.Method + " " + r.URL.Path + " does not exist: see docs/api.md"})
	})
	return mux
}

// serve answers one request if its sender has one of the required rights.
func (a *API) serve(w http.ResponseWriter, r *http.Request, route *route) {
	urls := a.urls()
	w.Header().Set(client.NodesHeader, strings.Join(urls, ","))
	w.Header().Set(client.LeaderHeader, a.Leader().URL)
	var body bytes.Buffer // what has been read of it
	r.Body = io.NopCloser(io.TeeReader(http.MaxBytesReader(w, r.Body, registry.MaxCommand), &body))
	r = a.withSender(r)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	var result any
	err := require(ctx, route.needs)
	if foreign := sameorigin.Check(r, a.names(urls)...); foreign != nil {
		err = &client.Error{Code: client.Forbidden, Message: foreign.Error()}
	}
	if err == nil {
		err = route.checkParameters(r)
	}
	if err == nil {
		result, err = route.answer(ctx, r)
	}
	var elsewhere *raftnode.NotLeaderError
	if errors.As(err, &elsewhere) && elsewhere.Leader.URL != "" && r.Header.Get(forwardedHeader) == "" {
		a.forward(w, r, body.Bytes(), elsewhere.Leader)
		return
	}
	if err != nil {
		a.fail(w, a.failure(err))
		return
	}
	if r.Method != http.MethodGet && route.needs == administer {
		a.logChange(r, nil)
	}
	if data, raw := result.([]byte); raw {
		w.Header().Set("Content-Type", octets)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(backupTimeout)) // else the server's holds
		write(w, data)
		return
	}
	send(w, http.StatusOK, result)
}

const octets = "application/octet-stream"

// backupTimeout is how long a backup may take to be sent.
const backupTimeout = 10 * time.Minute

// logChange records who has changed what, by the certificate's or the token's name. Commits, of which there are many, are for --log-level
// debug.
func (a *API) logChange(r *http.Request, c *registry.Command) {
	by, what, level := who(r), r.URL.Path, slog.LevelInfo
	if s, _ := r.Context().Value(senderKey{}).(sender); s.through != "" {
		by += " through " + s.through
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

// names returns the names by which this node may be asked, from the URLs of all nodes: a name that leads to another one was not pointed here by a stranger either.
func (a *API) names(urls []string) []string { return sameorigin.Names(append(urls, a.url)...) }

// urls returns the URLs of all nodes.
func (a *API) urls() (urls []string) {
	a.View(func(s *registry.State) {
		for _, n := range s.Nodes {
			urls = append(urls, n.URL)
		}
	})
	return urls
}

// fail sends an error.
func (a *API) fail(w http.ResponseWriter, e *client.Error) {
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

// write sends the rest of an answer, ignoring errors since the client may be gone.
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
		return nil, &client.Error{Code: client.TooLarge, Message: "the request is too large: " + err.Error()}
	}
	if err != nil {
		return nil, &client.Error{Code: client.Malformed, Message: "the request cannot be read: " + err.Error()}
	}
	return data, nil
}
