package main_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/proto"
)

// person makes requests to one node, and can reach no other.
type person struct {
	t     *testing.T
	url   string
	http  *http.Client
	token string
}

func newPerson(t *testing.T, n *node, config *tls.Config) *person {
	t.Helper()
	p := &person{t: t, url: n.url}
	reach := func(ctx context.Context, network, address string) (net.Conn, error) {
		if "http://"+address != n.url {
			return nil, fmt.Errorf("%s cannot be reached from here", address)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	if config != nil {
		p.url = strings.Replace(n.url, "http:", "https:", 1)
	}
	p.http = &http.Client{Transport: &http.Transport{DialContext: reach, TLSClientConfig: config}}
	t.Cleanup(p.http.CloseIdleConnections)
	return p
}

// ask returns the answer to a request, of which header may be given in pairs.
func (p *person) ask(status int, method, path, body string, header ...string) string {
	p.t.Helper()
	request, err := http.NewRequestWithContext(deadline(p.t), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	for pair := range slices.Chunk(header, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := p.http.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status || len(response.Header.Values(client.NodesHeader)) != 1 {
		p.t.Errorf("%s %s %s is answered %d, %v, %s, %v; want %d", method, path, body, response.StatusCode,
			response.Header, answer, err, status)
	}
	return string(answer)
}

const submission = `{"submit":{"spec":{"name":%q,"tasks":["Swimmer-v2"],"algorithms":["npg"],"estimators":["uapg"],` +
	`"seeds":[1,2]}}}`

// useFollower submits an experiment to a node that does not lead, watches and fetches it.
func (p *person) useFollower(name string) {
	p.t.Helper()
	var before, after client.Runs
	if err := json.Unmarshal([]byte(p.ask(200, "GET", "/v1/runs", "")), &before); err != nil {
		p.t.Fatal(err)
	}
	watched := make(chan string, 1)
	go func() {
		watched <- p.ask(200, "GET", fmt.Sprintf("/v1/runs?after=%d&wait=60", max(before.Index, 1)), "")
	}()
	submit := fmt.Sprintf(submission, name)
	for range 2 { // once
		if answer := p.ask(200, "POST", "/v1/commands", submit, "Idempotency-Key", name); !strings.Contains(answer,
			`"runs":2`) {
			p.t.Errorf("submitted: %s", answer)
		}
	}
	if err := json.Unmarshal([]byte(<-watched), &after); err != nil || len(after.Runs) != 2 ||
		after.Runs[0].Experiment != name {
		p.t.Errorf("watched: %+v, %v", after, err)
	}
	var run registry.Run
	if err := json.Unmarshal([]byte(p.ask(200, "GET", "/v1/runs/"+name+"%2FSwimmer-v2%2Fnpg-uapg-s2", "")),
		&run); err != nil || run.Seed != 2 {
		p.t.Errorf("fetched: %+v, %v", run, err)
	}
	if page := p.ask(200, "GET", "/data/runs?q=experiment%3D"+name, ""); !strings.Contains(page, `"total":2`) {
		p.t.Errorf("its page: %s", page)
	}
	p.ask(404, "GET", "/v1/runs/nobody", "")
	p.ask(409, "POST", "/v1/commands", submit)
	state, err := registry.Decode(bytes.NewReader([]byte(p.ask(200, "GET", "/v1/backup", ""))))
	if err != nil || !slices.ContainsFunc(state.Experiments,
		func(e registry.Experiment) bool { return e.Spec.Name == name }) {
		p.t.Errorf("backed up: %+v, %v", state, err)
	}
}

// follower returns a node that does not lead, and the one that does.
func follower(t *testing.T, c *client.Client, nodes []*node) (follows, leads *node) {
	t.Helper()
	leads = leader(t, c, nodes)
	return nodes[slices.IndexFunc(nodes, func(n *node) bool { return n != leads })], leads
}

// A client that can reach only a node that does not lead is answered there; once no node leads, it is told what to do.
func TestFollowersForward(t *testing.T) {
	t.Parallel()
	nodes := serveThree(t)
	follows, leads := follower(t, newClient(t, nodes[0].url), nodes)
	p := newPerson(t, follows, nil)
	p.useFollower("a")
	leads.Expect(`msg=changed by="127.0.0.1:\d+ through 127.0.0.1:\d+" method=POST what=".*submit`)
	if answer := p.ask(503, "GET", "/v1/runs", "", "Dbqpg-Forwarded-For", "n9"); !strings.Contains(answer,
		"does not lead") {
		t.Errorf("a request is passed on twice: %s", answer)
	}
	if out, complaint, status := run(t, follows.url, sweepFile, "submit", "-"); status != 0 {
		t.Errorf("submit: %s%s", out, complaint)
	}
	w := watch(t, follows.url, "swimmer")
	w.MayFail()
	w.Expect("queued .*npg-uapg-s1")
	if out, complaint, status := run(t, follows.url, "", "cancel", "swimmer"); status != 0 {
		t.Errorf("cancel: %s%s", out, complaint)
	}
	if w.Wait(); !strings.Contains(w.Log(), "were cancelled") {
		t.Error(w.Log())
	}
	for _, n := range nodes {
		if n != follows {
			n.Kill()
		}
	}
	for range 3 { // whether or not it has noticed
		if answer := p.ask(503, "GET", "/v1/runs", ""); !strings.Contains(answer, `"unavailable"`) ||
			!strings.Contains(answer, "retry; if this lasts") {
			t.Error(answer)
		}
	}
}

// The nodes know each other by names that nobody else can resolve, as in Kubernetes, where a client comes by a
// forwarded port: one node is enough for it, whichever leads.
func TestPortForward(t *testing.T) {
	t.Parallel()
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 n1.invalid n2.invalid n3.invalid\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	within := []string{"unshare", "--map-root-user", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`,
		hosts}
	if out, err := exec.Command(within[0], append(within[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("this machine allows no mount namespaces: %v %s", err, out)
	}
	addresses := holdAddresses(t, 6)
	peers := fmt.Sprintf("n1=%s,n2=%s,n3=%s", addresses[1], addresses[3], addresses[5])
	var nodes []*node
	for i := range 3 {
		id, web := fmt.Sprint("n", i+1), addresses[2*i]
		_, port, _ := net.SplitHostPort(web)
		nodes = append(nodes, serveWithin(t, within, id, t.TempDir(), web, addresses[2*i+1], "--peers", peers,
			"--advertise-url", "http://"+id+".invalid:"+port))
	}
	for _, n := range nodes {
		n.Expect("msg=ready")
	}
	follows, leads := follower(t, newClient(t, nodes[0].url), nodes)
	c := newClient(t, follows.url)
	for i := range 3 {
		if _, err := c.Submit(deadline(t), spec(fmt.Sprint("x", i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	leads.Kill() // the client's node, or the one that it cannot reach, leads next
	if experiments, err := c.Experiments(deadline(t)); err != nil || len(experiments) != 3 {
		t.Errorf("%+v, %v", experiments, err)
	}
	leads.start()
	leads.Expect("msg=ready")
	for _, n := range nodes {
		if out, complaint, status := run(t, n.url, "", "list"); status != 0 || !strings.Contains(out, "x2") {
			t.Errorf("at %s: %s%s", n.id, out, complaint)
		}
	}
}

// What a client may do at a node it may do through it, and the leader's log names it; but nobody but a node can name
// another.
func TestFollowersForwardRights(t *testing.T) {
	t.Parallel()
	directory, tokens := newCredentials(t), filepath.Join(t.TempDir(), "tokens")
	token, complaint, status := run(t, "", "", "credentials", "token", "ci", "--role", "operator", "--file", tokens)
	if status != 0 {
		t.Fatal(complaint)
	}
	nodes := serveThree(t, "--credentials", filepath.Join(directory, "coordinator"), "--tokens", tokens)
	config := func(role proto.Role) *tls.Config {
		own, err := credentials.Load(filepath.Join(directory, string(role)), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return own.Client(proto.RoleCoordinator)
	}
	c, err := client.New(client.Config{URLs: []string{strings.Replace(nodes[0].url, "http:", "https:", 1)},
		TLS: config(proto.RoleOperator)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	follows, leads := follower(t, c, nodes)
	newPerson(t, follows, config(proto.RoleOperator)).useFollower("a")
	leads.Expect(`msg=changed by="operator operator through coordinator" method=POST what=".*submit`)

	authority, err := os.ReadFile(filepath.Join(directory, "operator", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	bearer := newPerson(t, follows, &tls.Config{RootCAs: pool})
	bearer.token = strings.TrimSpace(token)
	bearer.ask(200, "POST", "/v1/commands", `{"steer":{"name":"a","action":"cancel"}}`)
	leads.Expect(`msg=changed by="operator ci through coordinator" method=POST what=".*cancel`)

	bearer.ask(200, "POST", "/data/action", `{"action":"retry","name":"a"}`)
	leads.Expect(`msg=changed by="operator ci through coordinator" method=POST what=".*retry`)

	const act, forged = `{"remove":{"experiment":"a"}}`, "operator alice"
	observer, learner := newPerson(t, follows, config(proto.RoleObserver)),
		newPerson(t, follows, config(proto.RoleLearner))
	observer.ask(200, "GET", "/v1/runs", "")
	observer.ask(403, "POST", "/v1/commands", act)
	observer.ask(403, "GET", "/v1/backup", "")
	observer.ask(200, "GET", "/data/runs", "")
	observer.ask(403, "POST", "/data/action", `{"action":"cancel","name":"a"}`)
	bearer.ask(200, "POST", "/data/action", `{"action":"cancel","name":"a"}`)
	learner.ask(403, "POST", "/v1/commands", act)
	bearer.token = ""
	for _, n := range []*node{follows, leads} {
		for _, role := range []proto.Role{proto.RoleObserver, proto.RoleLearner, proto.RoleOperator} {
			newPerson(t, n, config(role)).ask(403, "POST", "/v1/commands", act, "Dbqpg-Forwarded-For", forged)
		}
		stranger := newPerson(t, n, &tls.Config{RootCAs: pool})
		stranger.ask(403, "POST", "/v1/commands", act, "Dbqpg-Forwarded-For", forged)
		stranger.ask(403, "POST", "/v1/commands", act, "Dbqpg-Forwarded-For", "coordinator coordinator")
		stranger.ask(401, "GET", "/data/runs", "")
		stranger.ask(401, "GET", "/data/runs", "", "Dbqpg-Forwarded-For", forged)
		stranger.token = strings.TrimSpace(token)
		stranger.ask(403, "POST", "/v1/commands", act, "Dbqpg-Forwarded-For", forged)
	}
	// A node has a sender's rights only, not its own, where it speaks for one.
	newPerson(t, leads, config(proto.RoleCoordinator)).ask(403, "POST", "/v1/commands", act, "Dbqpg-Forwarded-For",
		"observer eve")
	newPerson(t, leads, config(proto.RoleCoordinator)).ask(200, "POST", "/v1/commands", act, "Dbqpg-Forwarded-For",
		forged)
}
