// Package web serves the pages on which training can be watched: a table of runs, their curves, and a page for each
// run. A training process shows its own run, a coordinator all of its runs, and `learner dashboard` the runs in a
// store; they differ in their [Source].
//
// The front end (ui) is TypeScript, which package bundle builds into the embedded files in dist. Requests under data/
// are answered in JSON; everything else that the pages need is in the program.
//
// # Watching a policy play
//
// The tab "watch" of a run's page is ui/play.ts, a chunk of its own, which may import three.js: it is loaded when the
// tab is first opened. It exports
//
//	export function mount(element: HTMLElement, params: { run: string; checkpoint?: string }): () => void
//
// which shows the run in the element, at the element's present size, and returns a function that ends that. The page
// sends its requests to live/, relative to the document, which [Config.Live] answers.
package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/progress"
)

//go:embed index.html dist
var built embed.FS

// Config holds the settings of the pages.
type Config struct {
	// Source has the runs.
	Source Source
	// One means that the source has the one run that this process trains.
	One bool
	// Actions executes users' actions; nil means that the pages only read.
	Actions Actions
	// Live answers the requests under /live/ of the pages that show a policy at play; nil means that there are none.
	Live http.Handler
	// Log records errors; nil means slog.Default.
	Log *slog.Logger
}

// Actions identifies users, and executes what they may do beyond looking.
type Actions interface {
	// User returns the sender of a request, "" for anyone, and the actions permitted to them. An error means that they
	// may not even look.
	User(r *http.Request) (name string, actions []string, err error)
	// Login returns the cookie for a token, for "" one to be forgotten.
	Login(token string) (*http.Cookie, error)
	// Do executes an action for the sender of a request, and describes the change.
	Do(r *http.Request, a Action) (message string, err error)
}

// Action is a user's request to change something.
type Action struct {
	Action string `json:"action"` // check, submit, cancel, retry or remove
	Name   string `json:"name"`   // of a run or an experiment
	Sweep  string `json:"sweep"`  // to check or submit, as a sweep.yaml
}

// curvesTimeout is how long it may take to read ten thousand tables for the first time.
const curvesTimeout = 2 * time.Minute

// maxAction bounds the body of a request, in bytes.
const maxAction = 512 << 10

// policy is the Content-Security-Policy: nothing from elsewhere, nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler answers the requests for the pages, and the pages' own. It belongs at the root of a server that refuses the
// requests of other sites' pages (package sameorigin).
func Handler(c Config) http.Handler {
	s := &server{Config: c}
	if kept := c.Source.Store(); kept != nil {
		s.columns = newColumns(kept)
	}
	if s.Log == nil {
		s.Log = slog.Default()
	}
	mux := http.NewServeMux()
	for name, f := range assets() {
		mux.Handle("GET /"+name, f)
	}
	mux.HandleFunc("POST /data/login", s.login)
	mux.HandleFunc("POST /data/action", s.json(s.act))
	mux.HandleFunc("GET /data/about", s.json(s.about))
	mux.HandleFunc("GET /data/runs", s.json(s.runs))
	mux.HandleFunc("GET /data/curves", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(curvesTimeout)) // in place of the server's
		s.json(s.curves)(w, r)
	})
	mux.HandleFunc("GET /data/run", s.json(s.run))
	mux.HandleFunc("GET /data/rows", s.json(s.rows))
	mux.HandleFunc("GET /data/log", s.json(s.log))
	mux.HandleFunc("GET /data/file", s.file)
	if c.Live != nil {
		mux.Handle("/live/", http.StripPrefix("/live", c.Live))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		r, err := s.admit(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// user is the sender of a request, and the actions permitted to them.
type user struct {
	name    string
	actions []string
}

// userKey is the key of a request's user in its context.
type userKey struct{}

// userOf returns the user that admit has found; without Actions, anyone, who may take none.
func userOf(r *http.Request) user {
	if u, ok := r.Context().Value(userKey{}).(user); ok {
		return u
	}
	return user{actions: []string{}}
}

// admit returns a request with its user, or an error if they may not look at what it asks for.
func (s *server) admit(r *http.Request) (*http.Request, error) {
	private := strings.HasPrefix(r.URL.Path, "/data/") || strings.HasPrefix(r.URL.Path, "/live/")
	if s.Actions == nil || !private || r.URL.Path == "/data/login" {
		return r, nil
	}
	name, actions, err := s.Actions.User(r)
	if err != nil {
		return r, &failure{http.StatusUnauthorized, err.Error()}
	}
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user{name, actions})), nil
}

type server struct {
	Config
	columns *columns // nil without a store
}

// asset is an embedded file.
type asset struct {
	kind, tag         string
	plain, compressed []byte
	forever           bool // its name changes with its contents
}

func (a *asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("ETag", a.tag)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache") // the browser asks whether it has changed
	if a.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	data := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		data = a.compressed
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// assets returns the embedded files by the patterns of their paths.
func assets() map[string]http.Handler {
	all := map[string]http.Handler{}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := built.ReadFile(name)
		if err != nil {
			return err
		}
		var compressed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // a valid level
		if _, err := w.Write(data); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		a := &asset{mime.TypeByExtension(path.Ext(name)), fmt.Sprintf(`"%x"`, sum[:12]), data, compressed.Bytes(),
			strings.Contains(name, "-")}
		if name == "index.html" {
			all["{$}"] = a
			return nil
		}
		all["assets/"+path.Base(name)] = a
		return nil
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	return all
}

// json answers with f's value.
func (s *server) json(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := f(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		data, err := json.Marshal(value)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept-Encoding")
		if len(data) < 1<<10 || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			_, _ = w.Write(data) // the client may be gone
			return
		}
		h.Set("Content-Encoding", "gzip")
		compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a valid level
		_, _ = compressed.Write(data)
		_ = compressed.Close()
	}
}

// failure is an error that the page shows.
type failure struct {
	status  int
	message string
}

func (f *failure) Error() string { return f.message }

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if f, ok := err.(*failure); ok { //nolint:errorlint // made here
		status = f.status
	} else if r.Context().Err() == nil {
		s.Log.Error("a page's request", "path", r.URL.Path, "error", err)
	}
	failed := map[string]string{"message": err.Error()}
	if status == http.StatusNotFound {
		failed["code"] = "not_found" // as the coordinator's API has it
	}
	data, _ := json.Marshal(map[string]any{"error": failed}) // texts can be encoded
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// about describes the server to the pages.
func (s *server) about(r *http.Request) (any, error) {
	u := userOf(r)
	return map[string]any{
		"user": u.name, "actions": u.actions, "login": u.name != "", "one": s.One, "live": s.Live != nil,
		"files": s.columns != nil,
		"metrics": slices.Concat(progress.Metrics[progress.Row](""),
			progress.Metrics[progress.Evaluation](evaluationPrefix)),
	}, nil
}

func (s *server) runs(r *http.Request) (any, error) {
	runs, err := s.Source.Runs(r.Context())
	if err != nil {
		return nil, err
	}
	table, err := tableOf(runs, time.Now(), r.URL.Query())
	if err != nil {
		return nil, &failure{http.StatusBadRequest, err.Error()}
	}
	return table, nil
}

// login answers a token with a cookie that scripts cannot read and other sites' requests do not carry. For an empty
// token the cookie is over.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	s.json(func(r *http.Request) (any, error) {
		var body struct {
			Token string `json:"token"`
		}
		if err := readBody(r, &body); err != nil {
			return nil, err
		}
		if s.Actions == nil {
			return nil, &failure{http.StatusNotFound, "nobody logs in here"}
		}
		cookie, err := s.Actions.Login(body.Token)
		if err != nil {
			return nil, &failure{http.StatusUnauthorized, err.Error()}
		}
		if body.Token == "" {
			cookie.MaxAge = -1
		}
		cookie.HttpOnly, cookie.SameSite = true, http.SameSiteStrictMode
		http.SetCookie(w, cookie)
		return struct{}{}, nil
	})(w, r)
}

func (s *server) act(r *http.Request) (any, error) {
	var a Action
	if err := readBody(r, &a); err != nil {
		return nil, err
	}
	if s.Actions == nil {
		return nil, &failure{http.StatusNotFound, "these pages only read"}
	}
	if !slices.Contains(userOf(r).actions, a.Action) {
		text := fmt.Sprintf("you may not %.20s here: see docs/security.md", a.Action)
		return nil, &failure{http.StatusForbidden, text}
	}
	message, err := s.Actions.Do(r, a)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, err.Error()}
	}
	return map[string]string{"message": message}, nil
}

// readBody decodes a request's body, which must be declared as JSON: a form of another site cannot be.
func readBody(r *http.Request, body any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &failure{http.StatusUnsupportedMediaType, "the body must be application/json"}
	}
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxAction))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(body); err != nil {
		return &failure{http.StatusBadRequest, "the request cannot be read: " + err.Error()}
	}
	return nil
}
