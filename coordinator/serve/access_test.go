package serve

import (
	"context"
	"fmt"
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

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/raftnode"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/processtest"
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
		if !strings.Contains(answer, c.want) || (response.StatusCode == 200) != strings.HasPrefix(c.want, "{") ||
			strings.Contains(c.want, "reused") && response.StatusCode != http.StatusConflict {
			t.Errorf("%s with key %q: %s %s", c.body, c.key, response.Status, answer)
		}
	}
}

var (
	_ context.Context
	_ = fmt.Sprint
	_ websocket.MessageType
	_ client.Config
	_ raftnode.Config
	_ registry.State
	_ = processtest.Address
)
