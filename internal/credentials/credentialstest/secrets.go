// Package credentialstest has a stand-in for the part of Kubernetes' API that keeps Secrets. The tests of the chart run
// the same requests against a real API server (make chart-e2e).
package credentialstest

import (
	"encoding/json"
	"encoding/pem"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Secrets keeps a namespace's Secrets in memory.
type Secrets struct {
	t       testing.TB
	address string
	mounted string

	mu      sync.Mutex
	objects map[string]map[string]any // by name
	version int
	refuse  func(method, name string) bool
}

// Namespace is the only namespace.
const Namespace = "training"

const token = "a-token"

// NewSecrets starts a server, until the end of the test.
func NewSecrets(t testing.TB) *Secrets {
	t.Helper()
	s := &Secrets{t: t, mounted: t.TempDir(), objects: map[string]map[string]any{}}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	s.address = server.Listener.Addr().String()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, data := range map[string]string{
		"ca.crt": string(certificate), "token": token + "\n", "namespace": Namespace,
	} {
		if err := os.WriteFile(filepath.Join(s.mounted, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// ServiceAccount returns the directory of the files that a pod with a token has mounted.
func (s *Secrets) ServiceAccount() string { return s.mounted }

// Getenv returns the variables by which a pod finds the server.
func (s *Secrets) Getenv(name string) string {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[name]
}

// Refuse has the server answer requests with 409 of which refuse says so; nil: none.
func (s *Secrets) Refuse(refuse func(method, name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// Data returns the Secrets' data by name and key.
func (s *Secrets) Data() map[string]map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]map[string][]byte{}
	for name, object := range s.objects {
		encoded, err := json.Marshal(object["data"])
		var data map[string][]byte
		if err == nil {
			err = json.Unmarshal(encoded, &data)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		all[name] = data
	}
	return all
}

// Delete removes a Secret.
func (s *Secrets) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
}

// ServeHTTP implements [http.Handler].
func (s *Secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const base = "/api/v1/namespaces/" + Namespace + "/secrets"
	name, _ := url.PathUnescape(filepath.Base(r.URL.Path))
	object := map[string]any{}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	path := base + "/" + name
	if r.Method == http.MethodPost {
		name, _ = metadata["name"].(string)
		path = base
	}
	old := s.objects[name]
	status := http.StatusOK
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		status = http.StatusUnauthorized
	case r.URL.Path != path || r.Method != http.MethodPost && old == nil:
		status = http.StatusNotFound
	case s.refuse != nil && s.refuse(r.Method, name),
		r.Method == http.MethodPost && old != nil,
		r.Method == http.MethodPut &&
			old["metadata"].(map[string]any)["resourceVersion"] != metadata["resourceVersion"]:
		status = http.StatusConflict
	case r.Method == http.MethodGet:
		object = old
	default:
		s.version++
		metadata = maps.Clone(metadata)
		metadata["resourceVersion"] = strconv.Itoa(s.version)
		object["metadata"] = metadata
		s.objects[name] = object
	}
	w.WriteHeader(status)
	if status != http.StatusOK {
		object = map[string]any{"kind": "Status", "message": http.StatusText(status)}
	}
	if err := json.NewEncoder(w).Encode(object); err != nil {
		s.t.Error(err)
	}
}
