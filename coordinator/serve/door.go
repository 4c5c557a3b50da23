package serve

import (
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

// door answers that it is too early, until it is opened: a node may wait for its way into a cluster for long.
type door struct{ behind atomic.Pointer[http.Handler] }

func (d *door) open(h http.Handler) { d.behind.Store(&h) }

// ServeHTTP implements [http.Handler].
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := d.behind.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/healthz" {
		return
	}
	early := client.Failure{Error: &client.Error{Code: client.Unavailable, Message: "this node is not in a cluster yet: its log says what it waits for"}}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(early) // who is gone needs no answer
}
