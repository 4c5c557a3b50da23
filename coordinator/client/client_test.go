package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func connect(t testing.TB, urls ...string) *Client {
	t.Helper()
	c, err := New(Config{URLs: urls, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// listen serves answers as a node would that is at that moment of its life.
func listen(t testing.TB, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func fail(w http.ResponseWriter, e Error) {
	w.WriteHeader(http.StatusServiceUnavailable)
	json.NewEncoder(w).Encode(Failure{&e})
}

// A client goes from nodes that are gone or know no leader to one that answers, with the same request each time.
func TestFindsNode(t *testing.T) {
	var mu sync.Mutex
	var numbers []registry.Request
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var c registry.Command
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			t.Error(err)
		}
		numbers = append(numbers, c.Request)
	}
	well := listen(t, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		io.WriteString(w, `{"runs":3}`)
	})
	undecided := listen(t, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		fail(w, Error{Code: Unavailable})
	})
	c := connect(t, "http://"+processtest.Address(t), undecided, well) // nobody listens at the first
	for range 2 {
		if r, err := c.Do(deadline(t), registry.Command{Steer: &registry.Steer{Name: "a", Action: registry.Cancel}}); err != nil || r.Runs != 3 {
			t.Fatal(r, err)
		}
	}
	if len(numbers) != 3 || numbers[0] != numbers[1] || numbers[0].Number != 1 || numbers[2].Number != 2 {
		t.Errorf("requests %+v", numbers)
	}
}

// Only a Take that was not answered is the same request when it is made again, and only if it is the next.
func TestUnansweredTake(t *testing.T) {
	var numbers []uint64
	var give func()
	c := connect(t, listen(t, func(w http.ResponseWriter, r *http.Request) {
		var command registry.Command
		if err := json.NewDecoder(r.Body).Decode(&command); err != nil {
			t.Error(err)
		}
		if numbers = append(numbers, command.Request.Number); give != nil {
			give()
			<-r.Context().Done()
			return
		}
		io.WriteString(w, `{"run":{}}`)
	}))
	take := registry.Command{Take: &registry.Take{Learner: "l", TTL: 1}}
	other := registry.Command{Take: &registry.Take{Learner: "l", TTL: 60}}
	cancel := registry.Command{Steer: &registry.Steer{Name: "a", Action: registry.Cancel}}
	do := func(answered bool, command registry.Command) {
		ctx, stop := context.WithCancel(deadline(t))
		defer stop()
		if give = stop; answered {
			give = nil
		}
		if _, err := c.Do(ctx, command); (err == nil) != answered {
			t.Fatal(err)
		}
	}
	do(false, take)   // 1
	do(false, take)   // 1
	do(true, take)    // 1
	do(true, take)    // 2
	do(false, take)   // 3
	do(true, other)   // 4
	do(false, take)   // 5
	do(true, cancel)  // 6
	do(true, take)    // 7
	do(false, cancel) // 8
	do(true, cancel)  // 9
	if want := []uint64{1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(numbers, want) {
		t.Errorf("numbers %v, want %v", numbers, want)
	}
}

// A refusal, or what is no answer of a coordinator, is final; the end of the context ends everything else, and its error says what was wrong.
func TestGivesUp(t *testing.T) {
	asked := 0
	answer := `{"error":{"code":"stale_epoch","message":"another has it"}}`
	url := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		io.WriteString(w, answer)
	})
	c := connect(t, url)
	if _, err := c.End(deadline(t), registry.End{State: registry.Done}); !errors.Is(err, StaleEpoch) || err.Error() != "another has it" {
		t.Error(err)
	}
	answer = "<html>"
	var e *Error
	if _, err := c.End(deadline(t), registry.End{State: registry.Done}); !errors.As(err, &e) || e.Code != Internal {
		t.Error(err)
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	busy := connect(t, listen(t, func(w http.ResponseWriter, _ *http.Request) {
		fail(w, Error{Code: Unavailable, Message: "between two leaders"})
	}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := busy.Nodes(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "between two leaders") {
		t.Error(err)
	}
	if _, err := busy.Take(ctx, registry.Take{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Nodes that joined later are learned from any answer.
func TestLearnsNodes(t *testing.T) {
	second := listen(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"nodes":[{"id":"n2"}]}`) })
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(NodesHeader, second)
		io.WriteString(w, `{"nodes":[]}`)
	}))
	c := connect(t, first.URL)
	if nodes, err := c.Nodes(deadline(t)); err != nil || len(nodes) != 0 {
		t.Fatal(nodes, err)
	}
	first.Close()
	if nodes, err := c.Nodes(deadline(t)); err != nil || len(nodes) != 1 {
		t.Error(nodes, err)
	}
}

func TestBadURLs(t *testing.T) {
	for _, urls := range [][]string{nil, {""}, {"127.0.0.1:7070"}, {"nats://h"}, {"http://"}} {
		if _, err := New(Config{URLs: urls}); err == nil {
			t.Errorf("%q is accepted", urls)
		}
	}
}

func TestQuery(t *testing.T) {
	q := Query{Experiment: "a", State: registry.Done, Free: true, After: 7, Wait: time.Second}
	if got, err := ParseQuery(q.values()); got != q || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
