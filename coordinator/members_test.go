package main_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// requireAlive requires a node to accept an experiment.
func requireAlive(t *testing.T, n *node, experiment string) {
	t.Helper()
	if _, err := newClient(t, n.url).Submit(deadline(t), spec(experiment, 1)); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// A node that nobody reaches at the address that it gives is not taken in, nor is one where another answers, nor one
// that is in another cluster: a lone coordinator would wait for its vote forever.
func TestJoinElsewhere(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 7)
	first := serve(t, "n1", t.TempDir(), addresses[0], addresses[1])
	first.Expect("msg=ready")
	for i, c := range []struct{ experiment, advertised, want string }{
		{"a", addresses[2], "n2 must answer at " + addresses[2]},
		{"b", addresses[1], `the node at ` + addresses[1] + ` is "n1", not n2`},
	} {
		n := serve(t, "n2", t.TempDir(), addresses[3], addresses[4], "--join", first.url, "--advertise-raft",
			c.advertised)
		n.MayFail()
		if status := n.Wait(); status != 1 || !strings.Contains(n.Log(), c.want) {
			t.Errorf("join %d ended with status %d:\n%s", i, status, n.Log())
		}
		requireAlive(t, first, c.experiment)
	}
	other := serve(t, "n3", t.TempDir(), addresses[5], addresses[6])
	other.Expect("msg=ready")
	var refused *client.Error
	if err := newClient(t, first.url).Join(deadline(t), client.Joining{ID: "n3", Address: other.raft}); !errors.As(err,
		&refused) || refused.Code != client.Unsafe {
		t.Errorf("another cluster's node joins: %v", err)
	}
	requireAlive(t, first, "c")
	requireAlive(t, other, "c")
}

// A page of another site cannot add a node, nor make any other request.
func TestOtherSite(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 2)
	n := serve(t, "n1", t.TempDir(), addresses[0], addresses[1])
	n.Expect("msg=ready")
	for name, c := range map[string]struct {
		host, method, path, body string
		header                   http.Header
		status                   int
	}{
		"another site": {method: "POST", path: "/v1/nodes", body: `{"id":"evil","address":"192.0.2.1:9"}`,
			header: http.Header{"Origin": {"http://evil.example"}, "Content-Type": {"application/json"}}, status: 403},
		"a form": {method: "POST", path: "/v1/nodes", body: `{"id":"evil","address":"192.0.2.1:9"}`,
			header: http.Header{"Content-Type": {"text/plain"}}, status: 403},
		"no type": {method: "POST", path: "/v1/nodes", body: `{"id":"evil","address":"192.0.2.1:9"}`,
			status: 403},
		"a browser's word": {method: "DELETE", path: "/v1/nodes/n1",
			header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		"a rebound name": {host: "evil.example:7070", method: "GET", path: "/v1/runs", status: 403},
		"a rebound name acts": {host: "evil.example", method: "DELETE", path: "/v1/nodes/n1",
			header: http.Header{"Origin": {"http://evil.example"}}, status: 403},
		"itself": {host: "localhost:7070", method: "GET", path: "/v1/runs", status: 200},
		"an unreachable node": {method: "POST", path: "/v1/nodes", body: `{"id":"n2","address":"0.0.0.0:9"}`,
			header: http.Header{"Content-Type": {"application/json"}}, status: 400},
		"a useless URL": {method: "POST", path: "/v1/commands",
			body:   `{"announce":{"id":"n1","url":"http://[::]:7070"}}`,
			header: http.Header{"Content-Type": {"application/json"}}, status: 400},
	} {
		request, err := http.NewRequestWithContext(processtest.Context(t), c.method, n.url+c.path,
			strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		for key, values := range c.header {
			request.Header[key] = values
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s is answered %s", name, response.Status)
		}
	}
	requireAlive(t, n, "x")
}

// No node leaves that is needed for a majority of those that remain.
func TestLeaveKeepsMajority(t *testing.T) {
	t.Parallel()
	nodes := serveThree(t)
	nodes[2].Kill()
	c := newClient(t, nodes[0].url, nodes[1].url)
	var refused *client.Error
	if err := c.Leave(deadline(t), "n2"); !errors.As(err, &refused) || refused.Code != client.Unsafe ||
		!strings.Contains(err.Error(), "n3 would not answer") {
		t.Errorf("the second of three leaves where the third is down: %v", err)
	}
	if err := c.Leave(deadline(t), "n3"); err != nil {
		t.Errorf("the third, which is down, does not leave: %v", err)
	}
	if err := c.Leave(deadline(t), "n2"); err != nil {
		t.Errorf("the second of two does not leave: %v", err)
	}
	nodes[1].Signal(syscall.SIGKILL) // unless it has learned that it was removed, and ended
	nodes[1].Wait()
	if err := c.Leave(deadline(t), "n1"); !errors.As(err, &refused) || refused.Code != client.Unsafe {
		t.Errorf("the last leaves: %v", err)
	}
	requireAlive(t, nodes[0], "x")
}

// An address that means all of a machine's is no address for others.
func TestAdvertiseUnspecified(t *testing.T) {
	t.Parallel()
	for want, arguments := range map[string][]string{
		"--advertise-raft": {"--raft", "0.0.0.0:0", "--http", "127.0.0.1:0", "--insecure-listen"},
		"--advertise-url":  {"--raft", "127.0.0.1:0", "--http", "[::]:0", "--insecure-listen"},
		"other machines": {"--raft", "127.0.0.1:0", "--http", "127.0.0.1:0", "--advertise-raft",
			net.JoinHostPort("::", "7071")},
	} {
		_, complaint, status := run(t, "", "", append([]string{"serve", "--data-dir", t.TempDir()}, arguments...)...)
		if status != 1 || !strings.Contains(complaint, want) {
			t.Errorf("%v: status %d: %s", arguments, status, complaint)
		}
	}
}
