package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/proto"
)

// member returns a member's credentials, of an authority made for the test.
func member(t *testing.T, authority, name string) *credentials.Credentials {
	t.Helper()
	if _, err := os.Stat(authority); err != nil {
		if _, err := credentials.Create(authority, nil, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	own, err := credentials.Load(filepath.Join(authority, name), quiet)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// browser returns an HTTP client with a role's certificate, "" for none.
func browser(t *testing.T, authority string, role proto.Role) *http.Client {
	t.Helper()
	config := member(t, authority, string(proto.RoleOperator)).Client(proto.RoleCoordinator)
	if config.GetClientCertificate = nil; role != "" {
		config = member(t, authority, string(role)).Client(proto.RoleCoordinator)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// do makes a request and returns the answer with its body, read.
func do(t *testing.T, with *http.Client, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(deadline(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := with.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(answer)
}

// An Idempotency-Key, or a client's name, is its sender's alone, and stands for one request.
func TestKeysAreBound(t *testing.T) {
	a, _ := newAPI(t)
	authority := filepath.Join(t.TempDir(), "credentials")
	server := httptest.NewUnstartedServer(a.handler())
	server.TLS = member(t, authority, "coordinator").Server(proto.Roles()...)
	server.StartTLS()
	t.Cleanup(server.Close)
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/v1/commands"
	operator, learner := browser(t, authority, proto.RoleOperator), browser(t, authority, proto.RoleLearner)
	submit := `{"submit":{"spec":{"name":"a","tasks":["Swimmer-v2"],"algorithms":["npg"],"estimators":["mc"],"seeds":[1,2]}}}`
	cancel := `{"steer":{"name":"a","action":"cancel"}}`
	numbered := func(command string) string { return `{"request":{"client":"c8","number":1},` + command[1:] }
	do(t, operator, "POST", url, submit)
	do(t, learner, "POST", url, `{"take":{"learner":"l","ttl_seconds":60}}`, "Idempotency-Key", "k8")
	do(t, learner, "POST", url, numbered(`{"take":{"learner":"m","ttl_seconds":60}}`))
	for _, c := range []struct{ body, key, want string }{
		{cancel, "k8", `{"runs":2}`},
		{cancel, "k8", `{"runs":2}`},
		{submit, "k8", `"reused"`},
		{numbered(cancel), "", `"not_running"`},
		{numbered(submit), "", `"reused"`},
	} {
		response, answer := do(t, operator, "POST", url, c.body, "Idempotency-Key", c.key)
		if !strings.Contains(answer, c.want) || (response.StatusCode == http.StatusOK) != strings.HasPrefix(c.want, "{") ||
			strings.Contains(c.want, "reused") && response.StatusCode != http.StatusConflict {
			t.Errorf("%s with key %q: %s %s", c.body, c.key, response.Status, answer)
		}
	}
}

// tokenServer returns the URL of a node that takes tokens, and the file of an observer's token and that token.
func tokenServer(t *testing.T, c Config) (url, authority string, tokens credentials.Tokens, token string) {
	t.Helper()
	a, _ := newAPI(t)
	authority = filepath.Join(t.TempDir(), "credentials")
	a.tokens = credentials.Tokens(filepath.Join(t.TempDir(), "tokens"))
	token, err := a.tokens.Add("anna", proto.RoleObserver)
	if err != nil {
		t.Fatal(err)
	}
	c.Log = quiet
	mux := http.NewServeMux()
	mux.Handle("/v1/", a.handler())
	mux.Handle("/healthz", a.handler())
	mux.Handle("/", a.admit(c.pages(a)))
	server := httptest.NewUnstartedServer(a.unkept(mux))
	server.TLS = withTokens(member(t, authority, "coordinator").Server(proto.Roles()...))
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1), authority, a.tokens, token
}

// A viewer whose token is revoked is sent away, and one user's viewers leave room for others.
func TestViewers(t *testing.T) {
	played := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		_, _, _ = conn.Read(context.Background()) // until the viewer is gone
	}))
	defer played.Close()
	url, authority, tokens, token := tokenServer(t, Config{Play: played.URL})
	stranger := browser(t, authority, "")
	var watching []*websocket.Conn
	for range 20 {
		conn, response, err := websocket.Dial(deadline(t), strings.Replace(url, "https", "wss", 1)+"/live/?run=a",
			&websocket.DialOptions{HTTPClient: stranger, HTTPHeader: http.Header{"Cookie": {tokenCookie + "=" + token}}})
		if err != nil {
			if response == nil || response.StatusCode != http.StatusTooManyRequests {
				t.Fatal(err)
			}
			continue
		}
		defer conn.CloseNow()
		watching = append(watching, conn)
	}
	if len(watching) != maxViewers {
		t.Errorf("one user has %d viewers", len(watching))
	}
	if err := os.WriteFile(string(tokens), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for ctx := deadline(t); len(watching) > 0; watching = watching[1:] {
		if _, _, err := watching[0].Read(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Error("a viewer without a token:", err)
		}
	}
}

// Who shows neither a certificate nor a token holds no connection, and is told what to show.
func TestStrangers(t *testing.T) {
	url, authority, _, token := tokenServer(t, Config{})
	stranger := browser(t, authority, "")
	for path, want := range map[string]string{"/healthz": "ok", "/v1/runs": "neither a valid certificate nor a valid token"} {
		response, answer := do(t, stranger, "GET", url+path, "", "Authorization", "Bearer other")
		if !response.Close || !strings.Contains(answer, want) || strings.Contains(answer, `""`) {
			t.Errorf("%s: kept %t, %s", path, !response.Close, answer)
		}
	}
	if response, answer := do(t, stranger, "GET", url+"/v1/runs", "", "Authorization", "Bearer "+token); response.Close || response.StatusCode != 200 {
		t.Errorf("with a token: kept %t, %s", !response.Close, answer)
	}
	if response, answer := do(t, browser(t, authority, proto.RoleLearner), "GET", url+"/v1/runs", ""); response.Close || response.StatusCode != 200 {
		t.Errorf("with a certificate: kept %t, %s", !response.Close, answer)
	}
}

// A leader whose URL is not known is not named with an empty one.
func TestLeaderWithoutURL(t *testing.T) {
	answers := newTestAPI(follower{leader: registry.Node{ID: "n3"}}, nil).handler()
	w := httptest.NewRecorder()
	answers.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/runs", nil))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), " :") || !strings.Contains(w.Body.String(), "n3") {
		t.Error(w.Body)
	}
}

// A store that comes after the coordinator is seen.
func TestLateStore(t *testing.T) {
	a, _ := newAPI(t)
	kept := filepath.Join(t.TempDir(), "store")
	c := Config{Checkpoints: kept, Log: quiet}
	server := httptest.NewServer(a.admit(c.pages(a)))
	t.Cleanup(server.Close)
	execute := func(command registry.Command) registry.Response {
		t.Helper()
		response, err := a.command(deadline(t), command)
		if err != nil || response.Refusal != nil {
			t.Fatal(response.Refusal, err)
		}
		return response
	}
	execute(registry.Command{Submit: &registry.Submit{Spec: spec("a", 1)}})
	run := execute(registry.Command{Take: &registry.Take{Learner: "l", TTL: 60}}).Run
	execute(registry.Command{Commit: &registry.Commit{Hold: registry.Hold{Run: run.Name, Epoch: run.Epoch},
		Checkpoint: registry.Checkpoint{SHA256: strings.Repeat("0", 64), Location: run.Name + "/epoch-1/checkpoints/c"}}})
	get := func() string {
		_, answer := do(t, server.Client(), "GET", server.URL+"/data/run?name="+run.Name, "")
		return answer
	}
	if answer := get(); !strings.Contains(answer, `"files":[]`) {
		t.Error(answer)
	}
	file := filepath.Join(kept, run.Name, "epoch-1", "progress.csv")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if answer := get(); !strings.Contains(answer, `"progress.csv"`) {
		t.Error(answer)
	}
}
