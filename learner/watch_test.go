package main_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// watchPlay watches a run on the pages at a URL until it has seen so many frames.
func watchPlay(t *testing.T, pages, run string, frames int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, answer, err := websocket.Dial(ctx, pages+"/live/?run="+url.QueryEscape(run), nil)
	// pages list their runs every second
	for err != nil && answer != nil && answer.StatusCode == http.StatusNotFound && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		conn, answer, err = websocket.Dial(ctx, pages+"/live/?run="+url.QueryEscape(run), nil)
	}
	if err != nil {
		t.Fatalf("watching %s: %v, %v", run, err, answer)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for frames > 0 {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("watching %s: %v", run, err)
		}
		if kind == websocket.MessageBinary {
			frames--
		} else if len(data) < 500 {
			t.Logf("told %s", data)
		}
	}
}

var pagesURL = `open this address.*(http://127\.0\.0\.1:\d+)/`

// Whoever watches the run of a learner does not change it.
func TestWatchedRun(t *testing.T) {
	t.Parallel()
	e, directory := examples[1], newDirectory(t)
	p := start(t, "learner", e.arguments(directory, "--actors", "0", "--http", "127.0.0.1:0")...)
	pages := p.Expect(pagesURL)[1]
	actor := start(t, "actor", "--nats", p.url(), "--slots", "1")
	p.iterations(2)
	actor.Signal(syscall.SIGSTOP) // the run waits meanwhile
	var table struct {
		Runs []struct{ Name string }
	}
	if _, body := fetch(t, pages+"/data/runs"); json.Unmarshal([]byte(body), &table) != nil || len(table.Runs) != 1 {
		t.Fatalf("the pages show %s", body)
	}
	watchPlay(t, pages, table.Runs[0].Name, 30)
	actor.Signal(syscall.SIGCONT)
	p.Succeed()
	e.requireReference(t, directory)
	actor.Signal(syscall.SIGTERM)
	actor.Succeed()
}

// The pages of a coordinator, which has no engine, show the runs of its workers as a dashboard on their store plays
// them.
func TestWatchedCluster(t *testing.T) {
	t.Parallel()
	e, checkpoints := examples[1], t.TempDir()
	player := start(t, "learner", "dashboard", checkpoints, "--http", "127.0.0.1:0").Expect(pagesURL)[1]
	c := newClusterOver(t, "http", nil, "--play", player)
	c.checkpoints = checkpoints
	name := c.submit(e, "watched")
	c.worker("")
	c.done(name)
	watchPlay(t, c.url, name, 30)
}
