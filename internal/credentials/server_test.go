package credentials

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(processtest.Context(t), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func startNATS(t testing.TB, c *Credentials) *natsserver.Server {
	t.Helper()
	auth, err := c.ServerAuth()
	if err != nil {
		t.Fatal(err)
	}
	s, err := natsserver.Start(natsserver.Config{Log: quiet, Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// logIn tries to connect to a NATS server.
func logIn(t testing.TB, url string, identity *bus.Identity) error {
	t.Helper()
	c, err := bus.Connect(deadline(t), url, bus.ConnConfig{Log: quiet, Identity: identity})
	if err == nil {
		c.Close()
	}
	return err
}

// A server lets members in and nobody else; a member trusts its authority's server and no other. Each refusal comes at
// once, and says why.
func TestLogIn(t *testing.T) {
	d, foreign := create(t), create(t)
	url := startNATS(t, d.load(t, "learner")).URL()
	if !strings.HasPrefix(url, "tls://") {
		t.Errorf("the URL is %s", url)
	}
	for _, role := range proto.Roles() {
		err := logIn(t, url, d.load(t, string(role)).Identity())
		if may := role == proto.RoleLearner || role == proto.RoleActor; (err == nil) != may {
			t.Errorf("%s: %v", role, err)
		}
	}
	plain := strings.Replace(url, "tls://", "nats://", 1)
	if err := logIn(t, plain, d.load(t, "actor").Identity()); err != nil {
		t.Errorf("called nats://: %v", err)
	}
	stranger := foreign.load(t, "learner").Identity()
	stranger.TLS.RootCAs = d.load(t, "actor").authority
	distrusting := d.load(t, "actor").Identity()
	distrusting.TLS.RootCAs = foreign.load(t, "actor").authority

	nats := identity{Name: "nats", Role: proto.RoleNATS}
	expired, err := tls.X509KeyPair(pair(d.authority.issue(member{identity: nats, Hosts: localHosts}, time.Now().Add(-day), time.Now().Add(-time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := tls.X509KeyPair(pair(d.authority.issue(member{identity: nats,
		Hosts: []string{"elsewhere"}}, time.Now(), time.Now().Add(time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
	noServer, err := tls.X509KeyPair(pair(d.authority.issue(member{Hosts: localHosts,
		identity: identity{Name: "actor", Role: proto.RoleActor}}, time.Now(), time.Now().Add(time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
	unguarded, err := natsserver.Start(natsserver.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unguarded.Close)
	member := d.load(t, "actor").Identity()
	for what, c := range map[string]struct {
		url      string
		identity *bus.Identity
		want     string
	}{
		"no credentials":                     {url, nil, "give --credentials DIR"},
		"a certificate of another authority": {url, stranger, "does not admit the certificate of learner"},
		"a coordinator for a server": {serveWith(t, d, *d.load(t, "coordinator").certificate), member,
			"coordinator is of role coordinator, required is nats or learner"},
		"another authority":     {url, distrusting, "issued by another authority than the credentials"},
		"expired certificate":   {serveWith(t, d, expired), member, "renew the server's certificate"},
		"other host":            {serveWith(t, d, elsewhere), member, "issued for the name used to reach it"},
		"an actor for a server": {serveWith(t, d, noServer), member, "doesn't contain any IP SANs"},
		"a server without TLS":  {unguarded.URL(), member, "the server uses no credentials"},
	} {
		t.Run(what, func(t *testing.T) {
			err := logIn(t, c.url, c.identity)
			if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	anonymous := &bus.Identity{Role: proto.RoleActor, Member: "actor", TLS: &tls.Config{RootCAs: d.load(t, "actor").authority}}
	if err := logIn(t, url, anonymous); err == nil || !strings.Contains(err.Error(), "does not admit") {
		t.Errorf("TLS without a certificate: %v", err)
	}
}

func pair(certificate, key []byte, err error) ([]byte, []byte) {
	if err != nil {
		panic(err)
	}
	return certificate, key
}

// serveWith starts a server that shows another certificate, and returns its URL.
func serveWith(t *testing.T, d *Directory, certificate tls.Certificate) string {
	t.Helper()
	auth, err := d.load(t, "nats").ServerAuth()
	if err != nil {
		t.Fatal(err)
	}
	auth.TLS.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	s, err := natsserver.Start(natsserver.Config{Log: quiet, Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.URL()
}

// A revoked certificate opens no server that has the new list, whoever gets the name afterwards; a member that was
// added does.
func TestRevokeAndAdd(t *testing.T) {
	d := create(t)
	stolen := d.load(t, "actor")
	revoked := stolen.Identity()
	revoked.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return stolen.certificate, nil
	}
	if err := d.Add("site-b", proto.RoleActor, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := d.Revoke("actor"); err != nil {
		t.Fatal(err)
	}
	reopened, err := Open(d.path)
	if err != nil || len(reopened.members) != len(proto.Roles()) {
		t.Fatalf("%v, %v", reopened, err)
	}
	url := startNATS(t, d.load(t, "nats")).URL()
	if err := logIn(t, url, d.load(t, "site-b").Identity()); err != nil {
		t.Error(err)
	}
	refuse := func() {
		t.Helper()
		if err := logIn(t, url, revoked); err == nil || !strings.Contains(err.Error(), "does not admit") {
			t.Errorf("revoked: %v", err)
		}
	}
	refuse()
	if err := d.Add("actor", proto.RoleActor, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	url = startNATS(t, d.load(t, "nats")).URL()
	if err := logIn(t, url, d.load(t, "actor").Identity()); err != nil {
		t.Errorf("who gets the name afterwards: %v", err)
	}
	refuse()
}

// A running server shows a renewed certificate from the next connection on.
func TestRenewWithoutRestart(t *testing.T) {
	d := create(t)
	server := d.load(t, "nats")
	url := startNATS(t, server).URL()
	before := server.current().Leaf.SerialNumber
	if err := d.Renew(nil, nil, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	identity := d.load(t, "actor").Identity()
	var shown tls.ConnectionState
	identity.TLS.VerifyConnection = func(state tls.ConnectionState) error { shown = state; return nil }
	if err := logIn(t, url, identity); err != nil {
		t.Fatal(err)
	}
	if serial := shown.PeerCertificates[0].SerialNumber; serial.Cmp(before) == 0 {
		t.Error("the server shows the old certificate")
	}
	// One that is half written is not shown.
	if err := os.WriteFile(filepath.Join(d.path, "nats", certificateFile), []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := logIn(t, url, identity); err != nil {
		t.Errorf("with a damaged file: %v", err)
	}
}

// Mutual TLS lets in the roles that it is to, on both sides, over HTTP.
func TestMutualTLS(t *testing.T) {
	d, foreign := create(t), create(t)
	serve := func(c *Credentials) string {
		listener, err := tls.Listen("tcp", "127.0.0.1:0", c.Server(proto.RoleCoordinator, proto.RoleOperator))
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelDebug),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				role, name, err := Peer(r.TLS)
				if err != nil {
					t.Error(err)
				}
				io.WriteString(w, string(role)+" "+name)
			})}
		served := make(chan error)
		go func() { served <- s.Serve(listener) }()
		t.Cleanup(func() { s.Close(); <-served })
		return "https://" + listener.Addr().String()
	}
	get := func(config *tls.Config, url string) (string, error) {
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(url)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	url := serve(d.load(t, "coordinator"))
	for _, role := range []string{"coordinator", "operator"} {
		if got, err := get(d.load(t, role).Client(proto.RoleCoordinator), url); err != nil || got != role+" "+role {
			t.Errorf("%s: %q, %v", role, got, err)
		}
	}
	nobody := &tls.Config{RootCAs: d.load(t, "actor").authority}
	impostor := foreign.load(t, "coordinator").Client()
	impostor.RootCAs = d.load(t, "actor").authority
	for what, config := range map[string]*tls.Config{
		"no certificate": nobody, "an actor": d.load(t, "actor").Client(), "another authority's coordinator": impostor,
		"a client of another authority": foreign.load(t, "operator").Client(),
	} {
		if got, err := get(config, url); err == nil {
			t.Errorf("%s is let in: %q", what, got)
		}
	}
	if _, err := get(d.load(t, "operator").Client(proto.RoleCoordinator), serve(d.load(t, "learner"))); !errors.Is(err,
		ErrRole) {
		t.Errorf("a learner for a coordinator: %v", err)
	}
	if _, _, err := Peer(nil); !errors.Is(err, ErrRole) {
		t.Errorf("no TLS: %v", err)
	}
}

// The configuration made for a NATS server of its own is one that the real server takes, with the same users. It reads
// those that were added and revoked without a restart.
func TestServerOfItsOwn(t *testing.T) {
	d := create(t)
	binary := filepath.Join(t.TempDir(), "nats-server")
	if output, err := exec.Command("go", "build", "-o", binary,
		"github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v\n%s", err, output)
	}
	at := filepath.Join(d.path, "nats")
	config, err := os.ReadFile(filepath.Join(at, serverFile))
	if err != nil {
		t.Fatal(err)
	}
	address := processtest.Address(t)
	write(t, at, serverFile, []byte(strings.Replace(string(config), "127.0.0.1:4222", address, 1)))
	cmd := exec.Command(binary, "-c", serverFile)
	cmd.Dir = at
	server := processtest.Start(t, cmd)
	for _, role := range []string{"learner", "actor"} {
		if err := logIn(t, "tls://"+address, d.load(t, role).Identity()); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
	revoked := d.load(t, "actor").Identity()
	if err := errors.Join(d.Revoke("actor"), d.Add("site-b", proto.RoleActor, nil, time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	server.Expect("Reloaded server configuration")
	if err := logIn(t, "tls://"+address, d.load(t, "site-b").Identity()); err != nil {
		t.Errorf("added: %v", err)
	}
	if err := logIn(t, "tls://"+address, revoked); err == nil {
		t.Error("a revoked member logs in")
	}
	if err := logIn(t, "nats://"+address, nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no credentials: %v", err)
	}
	c, err := bus.Connect(deadline(t), "tls://"+address,
		bus.ConnConfig{Log: quiet, Identity: d.load(t, "learner").Identity()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	store, err := c.Store(proto.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(deadline(t), "run", []byte("policy"), 0); err != nil {
		t.Errorf("the learner publishes: %v", err)
	}
}
