package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// follower is a node that knows of a leader elsewhere.
type follower struct {
	backend
	leader registry.Node
}

func (f follower) Read(context.Context, func(*registry.State)) error {
	return &raftnode.NotLeaderError{Leader: f.leader}
}
func (f follower) View(see func(*registry.State)) { see(registry.New()) }
func (f follower) Leader() registry.Node          { return f.leader }

// leads is a leader as requests to it meet it.
type leads func(*http.Request) (*http.Response, error)

func (l leads) RoundTrip(r *http.Request) (*http.Response, error) { return l(r) }

// A leader that does not answer is waited for as long as the request itself may take.
func TestForwardInVain(t *testing.T) {
	silent := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for _, c := range []struct {
		name, path, want string
		leader           leads
		after            time.Duration
	}{
		{"silent", "/v1/runs/a", "deadline exceeded", silent, 10 * time.Second},
		{"silent for long", "/v1/runs?wait=30", "deadline exceeded", silent, 40 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := follower{leader: registry.Node{ID: "n2", URL: "http://n2"}}
				answers := newTestAPI(node, c.leader).handler()
				w, began := httptest.NewRecorder(), time.Now()
				answers.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost"+c.path, nil))
				if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took != c.after || !strings.Contains(w.Body.String(), c.want) {
					t.Errorf("%d after %v: %s", w.Code, took, w.Body)
				}
			})
		})
	}
}
