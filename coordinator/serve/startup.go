package serve

import (
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

// startupHandler answers 503 until the API is ready: a node may wait a long time to enter a cluster.
type startupHandler struct{ next atomic.Pointer[http.Handler] }

func (s *startupHandler) ready(h http.Handler) { s.next.Store(&h) }

// ServeHTTP implements [http.Handler].
func (s *startupHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := s.next.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/healthz" {
		return
	}
	early := client.Failure{Error: &client.Error{Code: client.Unavailable, Message: "this node is not in a cluster yet: its log says what it waits for"}}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(early) // the client may be gone
}
