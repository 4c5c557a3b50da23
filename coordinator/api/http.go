package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/sameorigin"
)

// Handler answers requests over HTTP. A client with a certificate may do what its role permits.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, needs right, answer func(context.Context, *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, needs, answer) })
	}
	handle("POST /v1/commands", look|train|administer, func(ctx context.Context, r *http.Request) (any, error) {
		c, err := readCommand(r)
		if err != nil {
			return nil, err
		}
		if err := require(ctx, rightFor(&c)); err != nil {
			return nil, err
		}
		response, err := a.command(ctx, c)
		if err == nil && response.Refusal == nil && c.Renew == nil && c.Heartbeat == nil {
			a.logChange(r, &c)
		}
		return response, err
	})
	handle("GET /v1/runs", look, func(_ context.Context, r *http.Request) (any, error) {
		q, err := client.ParseQuery(r.URL.Query())
		if err != nil {
			return nil, &client.Error{Code: client.Malformed, Message: err.Error()}
		}
		ctx, cancel := context.WithTimeout(r.Context(), q.Wait+timeout)
		defer cancel()
		return a.runs(ctx, q)
	})
	handle("GET /v1/runs/{name...}", look, func(ctx context.Context, r *http.Request) (any, error) { return a.run(ctx, r.PathValue("name")) })
	handle("GET /v1/experiments", look, func(ctx context.Context, _ *http.Request) (any, error) { return a.experiments(ctx) })
	handle("GET /v1/seen", look, func(ctx context.Context, _ *http.Request) (any, error) { return a.seen(ctx) })
	handle("GET /v1/nodes", look, func(ctx context.Context, _ *http.Request) (any, error) { return a.nodes(ctx) })
	handle("POST /v1/nodes", administer, func(ctx context.Context, r *http.Request) (any, error) {
		var j client.Joining
		if err := readJSON(r, &j); err != nil {
			return nil, err
		}
		return struct{}{}, a.join(ctx, j)
	})
	handle("POST /v1/nodes/lost", administer, func(ctx context.Context, r *http.Request) (any, error) {
		var j client.Joining
		if err := readJSON(r, &j); err != nil {
			return nil, err
		}
		return a.lost(ctx, j)
	})
	handle("DELETE /v1/nodes/{id}", administer, func(ctx context.Context, r *http.Request) (any, error) {
		return struct{}{}, a.leave(ctx, r.PathValue("id"))
	})
	handle("GET /v1/backup", administer, func(ctx context.Context, _ *http.Request) (any, error) { return a.backup(ctx) })
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
		a.fail(w, r, &client.Error{Code: registry.NotFound, Message: r.Method + " " + r.URL.Path + " does not exist: see docs/coordinator.md"})
	})
	return mux
}

// serve answers one request if its sender has one of the required rights.
func (a *API) serve(w http.ResponseWriter, r *http.Request, needs right, answer func(context.Context, *http.Request) (any, error)) {
	w.Header().Set(client.NodesHeader, a.urls())
	r.Body = http.MaxBytesReader(w, r.Body, registry.MaxCommand)
	r = r.WithContext(withRole(r.Context(), sender(r)))
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	var result any
	err := require(ctx, needs)
	if foreign := sameorigin.Check(r, sameorigin.Names(strings.Split(a.urls(), ",")...)...); foreign != nil {
		err = &client.Error{Code: client.Forbidden, Message: foreign.Error()}
	}
	if err == nil {
		result, err = answer(ctx, r)
	}
	if err != nil {
		a.fail(w, r, a.failure(err))
		return
	}
	if r.Method != http.MethodGet && needs == administer {
		a.logChange(r, nil)
	}
	status := http.StatusOK
	switch result := result.(type) {
	case []byte:
		w.Header().Set("Content-Type", "application/octet-stream")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(backupTimeout)) // else the server's holds
		write(w, result)
		return
	case registry.Response:
		if result.Refusal != nil {
			status = statusOf(result.Refusal.Code)
		}
	}
	send(w, status, result)
}

// backupTimeout is how long a backup may take to be sent.
const backupTimeout = 10 * time.Minute

// logChange records who has changed what, by the name in the certificate. Commits, of which there are many, are for --log-level
// debug.
func (a *API) logChange(r *http.Request, c *registry.Command) {
	by, what, level := r.RemoteAddr, r.URL.Path, slog.LevelInfo
	if role, name, err := credentials.Peer(r.TLS); err == nil {
		by = string(role) + " " + name
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
func (a *API) urls() string {
	var urls []string
	a.View(func(s *registry.State) {
		for _, n := range s.Nodes {
			urls = append(urls, n.URL)
		}
	})
	return strings.Join(urls, ",")
}

// fail sends an error, with a redirect if it names the leader.
func (a *API) fail(w http.ResponseWriter, r *http.Request, e *client.Error) {
	status := statusOf(e.Code)
	if e.Code == client.NotLeader && e.Leader != "" {
		status = http.StatusTemporaryRedirect
		w.Header().Set("Location", e.Leader+r.URL.RequestURI())
	}
	send(w, status, client.Failure{Error: e})
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
	case client.NotLeader, client.Unavailable:
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

func readCommand(r *http.Request) (registry.Command, error) {
	data, err := readBody(r)
	if err != nil {
		return registry.Command{}, err
	}
	return decodeCommand(data)
}

// decodeCommand decodes a command that came over a network.
func decodeCommand(data []byte) (registry.Command, error) {
	c, err := registry.DecodeCommand(data)
	if err != nil {
		return c, &client.Error{Code: client.Malformed, Message: err.Error()}
	}
	return c, nil
}

func readJSON(r *http.Request, v any) error {
	data, err := readBody(r)
	if err != nil {
		return err
	}
	return decodeJSON(data, v)
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

// decodeJSON decodes one value, rejecting fields that v does not have.
func decodeJSON(data []byte, v any) error {
	if err := registry.DecodeStrictly(data, v); err != nil {
		return &client.Error{Code: client.Malformed, Message: "the request cannot be read: " + err.Error()}
	}
	return nil
}
