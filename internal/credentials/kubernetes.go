package credentials

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/proto"
)

// serviceAccount is where Kubernetes mounts a pod's token.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// maxAnswer bounds the size of answers of Kubernetes' API, in bytes: a Secret has at most 1 MiB, and more in base64.
const maxAnswer = 4 << 20

// errConflict reports a Secret that has changed since it was read.
var errConflict = errors.New("another process has changed it meanwhile: run this again")

// A secret is a Secret of Kubernetes. Its metadata is kept as it came.
type secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]any    `json:"metadata"`
	Type       string            `json:"type,omitempty"`
	Immutable  bool              `json:"immutable,omitempty"`
	Data       map[string][]byte `json:"data"`
}

// secretStore reads and writes Secrets of a namespace by Kubernetes' API.
type secretStore struct {
	client *http.Client
	url    string // of the Secrets
	token  string // path
}

// inCluster returns the store of the pod's own namespace, with the rights of its service account.
func inCluster(mounted string, getenv func(string) string) (*secretStore, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this command runs " +
			"in a pod")
	}
	namespace, err := read(mounted, "namespace")
	if err != nil {
		return nil, fmt.Errorf("the service account: %w", err)
	}
	if err := checkName(string(namespace)); err != nil {
		return nil, fmt.Errorf("the namespace: %w", err)
	}
	certificate, err := read(mounted, "ca.crt")
	if err != nil {
		return nil, fmt.Errorf("the service account: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		return nil, errors.New("the service account: ca.crt contains no certificate")
	}
	return &secretStore{
		client: &http.Client{Timeout: 30 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		url:   "https://" + net.JoinHostPort(host, port) + "/api/v1/namespaces/" + string(namespace) + "/secrets",
		token: filepath.Join(mounted, "token"),
	}, nil
}

// get returns a Secret, nil if there is none.
func (s *secretStore) get(ctx context.Context, name string) (*secret, error) {
	found := new(secret)
	status, err := s.do(ctx, http.MethodGet, "/"+name, nil, found)
	switch {
	case status == http.StatusNotFound:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return found, nil
}

// put creates a Secret, or replaces one that [secretStore.get] has returned.
func (s *secretStore) put(ctx context.Context, value *secret) error {
	name, _ := value.Metadata["name"].(string)
	method, path := http.MethodPost, ""
	if value.Metadata["resourceVersion"] != nil {
		method, path = http.MethodPut, "/"+name
	}
	status, err := s.do(ctx, method, path, value, nil)
	if status == http.StatusConflict {
		err = errConflict
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", name, err)
	}
	return nil
}

func (s *secretStore) do(ctx context.Context, method, path string, send, receive any) (status int, err error) {
	body, err := json.Marshal(send)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	token, err := os.ReadFile(s.token) // which the kubelet renews
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, err
	}
	if response.StatusCode/100 != 2 {
		var failure struct{ Message string }
		_ = json.Unmarshal(answer, &failure) // whatever it is, the status says enough
		return response.StatusCode, fmt.Errorf("%s: %.500s", response.Status, failure.Message)
	}
	if receive == nil {
		return response.StatusCode, nil
	}
	return response.StatusCode, json.Unmarshal(answer, receive)
}

// clusterMembers are the Secrets PREFIX-NAME with the members' directories and that of their authority.
type clusterMembers struct {
	store   *secretStore
	prefix  string
	labels  map[string]string // of new Secrets
	hosts   []string
	valid   time.Duration
	renew   time.Duration // before expiry
	scratch string        // directory that others cannot read

	found map[string]*secret // by directory
}

// sync creates missing members, and renews certificates that expire within c.renew or are for other hosts. It is
// idempotent, and may be repeated after an interruption. done describes each change.
func (c *clusterMembers) sync(ctx context.Context) (done []string, err error) {
	if err := checkHosts(c.hosts); err != nil {
		return nil, err
	}
	c.found = map[string]*secret{}
	for _, name := range c.directories() {
		if err := c.pull(ctx, name); err != nil {
			return nil, err
		}
	}
	if c.found[authorityDirectory] == nil {
		if len(c.found) > 0 {
			return nil, fmt.Errorf("the authority's Secret %s is missing, but Secrets that depend on it exist: %v; "+
				"restore it, or delete those",
				c.name(authorityDirectory), slices.Sorted(maps.Keys(c.found)))
		}
		if _, err := Create(c.scratch, c.hosts, c.valid); err != nil {
			return nil, err
		}
		done = append(done, "made an authority and its members")
	} else if done, err = c.mend(); err != nil {
		return nil, err
	}
	for _, name := range c.directories() { // the authority first: members that it does not know are made anew
		changed, err := c.push(ctx, name)
		if err != nil {
			return done, err
		}
		if changed {
			done = append(done, "wrote Secret "+c.name(name))
		}
	}
	return done, nil
}

func (c *clusterMembers) name(directory string) string { return c.prefix + "-" + directory }

func (c *clusterMembers) directories() []string {
	all := []string{authorityDirectory}
	for _, role := range proto.Roles() {
		all = append(all, string(role))
	}
	return all
}

// pull writes a Secret's files into the directory.
func (c *clusterMembers) pull(ctx context.Context, name string) error {
	found, err := c.store.get(ctx, c.name(name))
	if found == nil || err != nil {
		return err
	}
	c.found[name] = found
	directory := filepath.Join(c.scratch, name)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	for file, data := range found.Data {
		if !filepath.IsLocal(file) || filepath.Base(file) != file {
			return fmt.Errorf("the Secret %s: %q is not the name of a file", c.name(name), file)
		}
		if err := atomicfile.WritePrivate(filepath.Join(directory, file), data); err != nil {
			return err
		}
	}
	return nil
}

// mend makes members that have no Secret, or that the authority does not know, and renews certificates.
func (c *clusterMembers) mend() (done []string, err error) {
	d, err := Open(c.scratch)
	if err != nil {
		return nil, err
	}
	for _, role := range proto.Roles() {
		name := string(role)
		known := d.find(name)
		if known < 0 || c.found[name] == nil {
			done = append(done, name+": made a new key, as there was no Secret")
			if known >= 0 {
				err = d.Revoke(name)
			}
			if err == nil {
				err = d.Add(name, role, c.hosts, c.valid)
			}
		} else if why := c.renewalOf(d, d.members[known]); why != "" {
			done = append(done, name+": renewed the certificate, "+why)
			err = d.Renew([]string{name}, c.hosts, c.valid)
		}
		if err != nil {
			return nil, err
		}
	}
	return done, d.save()
}

// renewalOf returns why a member's certificate has to be renewed, "" if it has not.
func (c *clusterMembers) renewalOf(d *Directory, m member) string {
	current, err := load(filepath.Join(c.scratch, m.Name))
	if err != nil {
		return err.Error()
	}
	leaf := current.certificate.Leaf
	if err := leaf.CheckSignatureFrom(d.authority.certificate); err != nil {
		return err.Error()
	}
	if !leaf.NotAfter.Equal(m.Expires) {
		return "since it is not the last one that the authority issued"
	}
	if left := time.Until(leaf.NotAfter); left < c.renew && leaf.NotAfter.Before(d.authority.certificate.NotAfter) {
		return fmt.Sprintf("of %d days more", int(left/day))
	}
	if !slices.Equal(m.Hosts, hostsOf(m.Role, c.hosts)) {
		return "for other hosts"
	}
	return ""
}

// push writes a Secret if its files are others than were read.
func (c *clusterMembers) push(ctx context.Context, name string) (changed bool, err error) {
	entries, err := os.ReadDir(filepath.Join(c.scratch, name))
	if err != nil {
		return false, err
	}
	value := c.found[name]
	if value == nil {
		metadata := map[string]any{"name": c.name(name), "labels": c.labels}
		value = &secret{APIVersion: "v1", Kind: "Secret", Metadata: metadata, Type: "Opaque"}
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = read(filepath.Join(c.scratch, name), e.Name()); err != nil {
			return false, err
		}
	}
	if maps.EqualFunc(files, value.Data, bytes.Equal) {
		return false, nil
	}
	value.Data = files
	return true, c.store.put(ctx, value)
}
