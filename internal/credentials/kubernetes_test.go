package credentials

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/credentials/credentialstest"
	"github.com/dbqpg/dbqpg/proto"
)

// syncSecrets does what "credentials kubernetes" does.
func syncSecrets(t *testing.T, s *credentialstest.Secrets, host string, valid time.Duration) ([]string, error) {
	t.Helper()
	store, err := inCluster(s.ServiceAccount(), s.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	c := clusterMembers{
		store: store, prefix: "dbqpg-credentials", labels: map[string]string{"a": "b"}, hosts: []string{host, "nats=nats.example"},
		valid: valid, renew: 30 * day,
		scratch: filepath.Join(t.TempDir(), "members"),
	}
	return c.sync(t.Context())
}

func mustSync(t *testing.T, s *credentialstest.Secrets, host string) []string {
	t.Helper()
	done, err := syncSecrets(t, s, host, 365*day)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// requireUsable writes the Secrets as pods mount them, and loads them.
func requireUsable(t *testing.T, s *credentialstest.Secrets) {
	t.Helper()
	all := s.Data()
	accounts := string(all["dbqpg-credentials-nats"][accountsFile])
	for _, role := range proto.Roles() {
		directory := t.TempDir()
		for name, data := range all["dbqpg-credentials-"+string(role)] {
			if err := atomicfile.WritePrivate(filepath.Join(directory, name), data); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Load(directory, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Require(role); err != nil {
			t.Error(err)
		}
		logsIn := role == proto.RoleLearner || role == proto.RoleActor
		if logsIn != strings.Contains(accounts, `"`+c.uri().String()+`"`) {
			t.Errorf("the NATS server admits %s: %v", role, !logsIn)
		}
	}
}

// Secrets are made once, each with the files of one role, and the authority's key is in its own alone.
func TestKubernetesCreates(t *testing.T) {
	t.Parallel()
	s := credentialstest.NewSecrets(t)
	if done := mustSync(t, s, "dbqpg.example"); len(done) != 8 {
		t.Errorf("done: %q", done)
	}
	made := s.Data()
	requireUsable(t, s)
	key := made["dbqpg-credentials-authority"][authorityKeyFile]
	for name, files := range made {
		for file, data := range files {
			if name != "dbqpg-credentials-authority" && (file == authorityKeyFile || bytes.Contains(data, key)) {
				t.Errorf("%s has the authority's key", name)
			}
		}
	}
	if done := mustSync(t, s, "dbqpg.example"); len(done) != 0 {
		t.Errorf("a second time: %q", done)
	}
}

// Certificates that expire soon are renewed, as are those for other hosts; keys and the authority remain.
func TestKubernetesRenews(t *testing.T) {
	t.Parallel()
	s := credentialstest.NewSecrets(t)
	if _, err := syncSecrets(t, s, "old.example", 20*day); err != nil {
		t.Fatal(err)
	}
	before := s.Data()
	mustSync(t, s, "old.example")
	requireUsable(t, s)
	after := s.Data()
	for name, files := range before {
		for file, data := range files {
			renewed := file == certificateFile || file == privateKeyFile || file == membersFile
			if same := bytes.Equal(data, after[name][file]); same == renewed {
				t.Errorf("%s: %s is the same: %v", name, file, same)
			}
		}
	}
	if left := time.Until(leafOf(t, after["dbqpg-credentials-actor"]).NotAfter); left < 364*day {
		t.Errorf("valid for %v", left)
	}
	mustSync(t, s, "new.example")
	for _, server := range []string{"nats", "coordinator", "learner"} {
		leaf := leafOf(t, s.Data()["dbqpg-credentials-"+server])
		if err := leaf.VerifyHostname("new.example"); err != nil {
			t.Error(err)
		}
		if err := leaf.VerifyHostname("nats.example"); (err == nil) != (server == "nats") {
			t.Errorf("%s is a server at nats.example: %v", server, err)
		}
	}
	if !bytes.Equal(s.Data()["dbqpg-credentials-actor"][certificateFile],
		after["dbqpg-credentials-actor"][certificateFile]) {
		t.Error("an actor, which serves nobody, has a new certificate for other hosts")
	}
}

func leafOf(t *testing.T, files map[string][]byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(files[certificateFile])
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// A Secret that was deleted comes back with a new key, and its old certificate is revoked.
func TestKubernetesReplaces(t *testing.T) {
	t.Parallel()
	s := credentialstest.NewSecrets(t)
	mustSync(t, s, "dbqpg.example")
	before := s.Data()
	s.Delete("dbqpg-credentials-actor")
	s.Delete("dbqpg-credentials-nats")
	mustSync(t, s, "dbqpg.example")
	requireUsable(t, s)
	after := s.Data()
	old := leafOf(t, before["dbqpg-credentials-actor"]).URIs[0].String()
	if strings.Contains(string(after["dbqpg-credentials-nats"][accountsFile]), `"`+old+`"`) {
		t.Error("the NATS server admits the old certificate")
	}
	if !strings.Contains(string(after["dbqpg-credentials-coordinator"][revokedFile]), `"actor"`) {
		t.Error("coordinators do not know that the old certificate is revoked")
	}
	if done := mustSync(t, s, "dbqpg.example"); len(done) != 0 {
		t.Errorf("afterwards: %q", done)
	}
	s.Delete("dbqpg-credentials-authority")
	if _, err := syncSecrets(t, s, "dbqpg.example", 365*day); err == nil ||
		!strings.Contains(err.Error(), "Secret dbqpg-credentials-authority is missing") {
		t.Errorf("without an authority: %v", err)
	}
}

// Wherever it is interrupted, the next time completes it.
func TestKubernetesInterrupted(t *testing.T) {
	t.Parallel()
	for broken := range 7 {
		t.Run(fmt.Sprint(broken), func(t *testing.T) { t.Parallel(); interrupt(t, broken) })
	}
}

func interrupt(t *testing.T, broken int) {
	s := credentialstest.NewSecrets(t)
	writes := 0
	s.Refuse(func(method, _ string) bool {
		if method == http.MethodGet {
			return false
		}
		writes++
		return writes > broken
	})
	if _, err := syncSecrets(t, s, "dbqpg.example", 365*day); !errors.Is(err, errConflict) {
		t.Fatalf("after %d writes: %v", broken, err)
	}
	if got := len(s.Data()); got != broken {
		t.Fatalf("%d Secrets, want %d", got, broken)
	}
	s.Refuse(nil)
	mustSync(t, s, "dbqpg.example")
	requireUsable(t, s)
	if names := slices.Sorted(maps.Keys(s.Data())); len(names) != 7 {
		t.Errorf("in the end: %v", names)
	}
}

// A Secret's keys become files, and nothing outside the directory.
func TestKubernetesHostileSecret(t *testing.T) {
	t.Parallel()
	s := credentialstest.NewSecrets(t)
	mustSync(t, s, "dbqpg.example")
	store, err := inCluster(s.ServiceAccount(), s.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	hostile, err := store.get(t.Context(), "dbqpg-credentials-actor")
	if err != nil {
		t.Fatal(err)
	}
	hostile.Data["../out"] = []byte("x")
	if err := store.put(t.Context(), hostile); err != nil {
		t.Fatal(err)
	}
	if _, err := syncSecrets(t, s, "dbqpg.example", 365*day); err == nil ||
		!strings.Contains(err.Error(), "not the name of a file") {
		t.Error(err)
	}
	if _, err := inCluster(s.ServiceAccount(), func(string) string { return "" }); err == nil {
		t.Error("outside a pod")
	}
}
