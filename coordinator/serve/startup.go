package serve

import (
	"net/http"
	"sync/atomic"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

// startup answers 503 until there is a handler: a node may wait a long time to enter a cluster.
type startup struct{ handler atomic.Pointer[http.Handler] }

// ServeHTTP implements [http.Handler].
func (s *startup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch h := s.handler.Load(); {
	case h != nil:
		(*h).ServeHTTP(w, r)
	case r.URL.Path != "/healthz":
		err := client.Errorf(client.Unavailable, "this node is not in a cluster yet: its log says what it waits for")
		send(w, http.StatusServiceUnavailable, client.Failure{Error: err})
	}
}
