package helm

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

// natsChart names the directory of NATS's own chart: helm/charts/nats of a checkout of github.com/nats-io/k8s.
const natsChart = "NATS_CHART"

// renderNATS renders NATS's own chart with the values for it, as a release beside one of this chart.
func renderNATS(t *testing.T) *rendering {
	t.Helper()
	directory := os.Getenv(natsChart)
	if directory == "" {
		t.Skipf("%s is not set: it names the directory helm/charts/nats of a checkout of github.com/nats-io/k8s",
			natsChart)
	}
	official, err := loader.Load(directory)
	if err != nil {
		t.Fatal(err)
	}
	const path = "../charts/nats.yaml"
	if version := "--version " + official.Metadata.Version + " "; !strings.Contains(mustRead(t, path), version) {
		t.Fatalf("%s is not for %s", path, version)
	}
	servers, err := renderAs(official, "nats", valuesFile(t, path))
	if err != nil {
		t.Fatal(err)
	}
	r := render(t, parse(t, `
nats: {external: "tls://nats.training.svc:4222"}
credentials: {hosts: [nats=nats.training.svc, "nats=*.nats-headless"]}`))
	return &rendering{manifest: r.manifest + servers.manifest, objects: append(r.objects, servers.objects...)}
}

// officialServer is one server of that chart as a process of this machine: what its pod has below / is below root.
type officialServer struct {
	t       *testing.T
	root    string
	clients string // its address, host:port
	monitor string // a URL
}

// NATS's own chart, with the chart's values for it, is a cluster of three servers that all roles can log in to, and
// that keeps policies three times.
func TestOfficialNATS(t *testing.T) {
	r := renderNATS(t)
	var set appsv1.StatefulSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.find(t, "StatefulSet", "nats").Object,
		&set); err != nil {
		t.Fatal(err)
	}
	if *set.Spec.Replicas != 3 {
		t.Fatalf("%d replicas", *set.Spec.Replicas)
	}
	r.find(t, "PodDisruptionBudget", "nats")
	credentials := filepath.Join(t.TempDir(), "credentials")
	create := exec.Command(program(t, "coordinator"), "credentials", "create", "--out", credentials)
	// the names that the chart has certified
	for _, arg := range podOf(t, r.find(t, "Job", "dbqpg-credentials-setup")).Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--host=") {
			create.Args = append(create.Args, arg)
		}
	}
	if output, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	checkOfficialNames(t, r, filepath.Join(credentials, "nats", "tls.pem"))
	servers := startOfficial(t, r, &set, credentials)
	for _, s := range servers {
		s.awaitReady(set.Spec.Template.Spec.Containers[0])
	}
	trainThrough(t, servers, credentials)
	requireReplicas(t, servers[0].monitor)
	refuseStrangers(t, servers[0].clients)
}

// checkOfficialNames checks that the certificate has the names by which servers and clients call a server.
func checkOfficialNames(t *testing.T, r *rendering, certificate string) {
	t.Helper()
	leaf := parseCertificate(t, []byte(mustRead(t, certificate)))
	routes := regexp.MustCompile(`tls://[^"\s]+:6222`).FindAllString(r.manifest, -1)
	if len(routes) != 3 {
		t.Fatal(routes)
	}
	for _, call := range append(routes, "tls://nats.training.svc:4222") {
		u, err := url.Parse(call)
		if err != nil {
			t.Fatal(err)
		}
		if err := leaf.VerifyHostname(u.Hostname()); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	r.find(t, "Service", "nats")
	r.find(t, "Service", "nats-headless")
}

// startOfficial starts the servers with the chart's configuration. In it are this machine's ports in place of pods'
// names, and directories in place of volumes; nothing else is changed.
func startOfficial(t *testing.T, r *rendering, set *appsv1.StatefulSet,
	credentials string) (servers []*officialServer) {
	t.Helper()
	var ports [3][3]string // of clients, of routes and of the monitor
	for i := range ports {
		for j := range ports[i] {
			ports[i][j] = strconv.Itoa(processtest.Port(t))
		}
	}
	for i := range ports {
		s := &officialServer{t: t, root: t.TempDir(), clients: "127.0.0.1:" + ports[i][0],
			monitor: "http://127.0.0.1:" + ports[i][2]}
		s.fill(r, set.Spec.Template.Spec, credentials)
		replace := []string{`"port": 4222`, `"port": ` + ports[i][0], `"port": 6222`, `"port": ` + ports[i][1],
			`"http_port": 8222`, `"http_port": ` + ports[i][2]}
		for j := range ports {
			replace = append(replace, fmt.Sprintf(`tls://nats-%d.nats-headless:6222`, j),
				"tls://127.0.0.1:"+ports[j][1])
		}
		for _, path := range []string{"/etc/", "/data", "/var/run/"} {
			replace = append(replace, `"`+path, `"`+s.root+path)
		}
		config := s.root + "/etc/nats-config/nats.conf"
		text := mustRead(t, config)
		for k := 0; k < len(replace); k += 2 {
			if !strings.Contains(text, replace[k]) {
				t.Fatalf("the configuration has no %s:\n%s", replace[k], text)
			}
		}
		if err := os.WriteFile(config, []byte(strings.NewReplacer(replace...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start(fmt.Sprint("nats-", i), set.Spec.Template.Spec.Containers[0])
		servers = append(servers, s)
	}
	return servers
}

// fill makes what the pod has mounted.
func (s *officialServer) fill(r *rendering, pod corev1.PodSpec, credentials string) {
	s.t.Helper()
	container := pod.Containers[0]
	for _, m := range container.VolumeMounts {
		directory := s.root + m.MountPath
		if err := os.MkdirAll(directory, 0o700); err != nil {
			s.t.Fatal(err)
		}
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			continue // a claim
		}
		switch v := pod.Volumes[at]; {
		case v.ConfigMap != nil:
			data, _, err := unstructured.NestedStringMap(r.find(s.t, "ConfigMap", v.ConfigMap.Name).Object, "data")
			if err != nil {
				s.t.Fatal(err)
			}
			for name, text := range data {
				if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
					s.t.Fatal(err)
				}
			}
		case v.Secret != nil:
			if v.Secret.SecretName != "dbqpg-credentials-nats" {
				s.t.Fatalf("the Secret %s is mounted", v.Secret.SecretName)
			}
			if err := os.CopyFS(directory, os.DirFS(filepath.Join(credentials, "nats"))); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// start starts the container.
func (s *officialServer) start(pod string, c corev1.Container) {
	s.t.Helper()
	var args []string
	for _, a := range c.Args {
		if strings.HasPrefix(a, "/") {
			a = s.root + a
		}
		args = append(args, a)
	}
	command := exec.Command(program(s.t, "nats-server"), args...)
	for _, e := range c.Env {
		command.Env = append(command.Env, e.Name+"="+strings.ReplaceAll(e.Value, "$(POD_NAME)", pod))
	}
	processtest.Start(s.t, command)
}

// awaitReady waits until the container's probes are content.
func (s *officialServer) awaitReady(c corev1.Container) {
	s.t.Helper()
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		processtest.AwaitOK(s.t, s.monitor+probe.HTTPGet.Path)
	}
}

// trainThrough has a coordinator, a learner and an actor, by their roles' credentials, train one iteration over the
// servers.
func trainThrough(t *testing.T, servers []*officialServer, credentials string) {
	t.Helper()
	as := func(role string) string { return filepath.Join(credentials, role) }
	at, health := processtest.Address(t), processtest.Address(t)
	web := "https://" + at
	processtest.Start(t, exec.Command(program(t, "coordinator"), "serve", "--data-dir", t.TempDir(), "--http", at,
		"--raft", processtest.Address(t),
		"--metrics-listen", health, "--credentials", as("coordinator")))
	processtest.AwaitOK(t, "http://"+health+"/readyz")
	processtest.Start(t, exec.Command(program(t, "learner"), "worker", "--coordinator", web, "--checkpoints",
		t.TempDir(), "--actors", "0", "--device", "cpu",
		"--nats", "tls://"+servers[1].clients, "--credentials", as("learner")))
	processtest.Start(t, exec.Command(program(t, "actor"), "--nats", "tls://"+servers[2].clients, "--slots", "1",
		"--credentials", as("actor")))
	ask := func(input string, args ...string) string {
		command := exec.CommandContext(processtest.Context(t), program(t, "coordinator"), args...)
		command.Env = append(os.Environ(), "DBQPG_COORDINATOR="+web, "DBQPG_CREDENTIALS="+as("operator"))
		command.Stdin = strings.NewReader(input)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		return string(output)
	}
	ask("name: official\ntasks: Swimmer-v2\noverrides: {iterations: 2, batch: 1000}\n", "submit", "-")
	ask("", "watch", "official")
	if shown := ask("", "list", "official"); !regexp.MustCompile(`npg-uapg-s1 +done +2/2 `).MatchString(shown) {
		t.Error(shown)
	}
}

// requireReplicas fails unless the policies are kept by three servers.
func requireReplicas(t *testing.T, monitor string) {
	t.Helper()
	var all struct {
		Accounts []struct {
			Streams []struct {
				Name   string `json:"name"`
				Config struct {
					Replicas int    `json:"num_replicas"`
					Storage  string `json:"storage"`
				} `json:"config"`
				State struct {
					LastSequence uint64 `json:"last_seq"`
				} `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	response, err := http.Get(monitor + "/jsz?accounts=1&streams=1&config=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range all.Accounts {
		for _, s := range account.Streams {
			if s.Name == "KV_dbqpg-policies" && s.Config.Replicas == 3 && s.Config.Storage == "memory" &&
				s.State.LastSequence > 0 {
				return
			}
		}
	}
	t.Errorf("no policies are kept three times in memory: %s", data)
}

// refuseStrangers fails if one without a certificate is let in, or the limits are others.
func refuseStrangers(t *testing.T, address string) {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	info := make([]byte, 4096)
	n, err := raw.Read(info)
	const payload = `"max_payload":(8000000|8388608)\b`
	const required = `"tls_required":true`
	if err != nil || !regexp.MustCompile(payload+".*"+required+"|"+required+".*"+payload).Match(info[:n]) {
		t.Errorf("%s, %v", info[:n], err)
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) // who the server is does not matter here
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":true}\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a stranger is answered %q, %v", answer, err)
	}
}

// A server joins the cluster with the NATS servers' certificate alone: no other member's, whatever names it holds.
func TestRogueServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, render(t, parse(t, "credentials: {hosts: [dbqpg.example]}")))
	c.makeSecrets()
	for _, p := range c.startAll("StatefulSet", "dbqpg-nats") {
		p.ready()
	}
	for _, member := range []string{"nats", "learner", "coordinator", "actor", "operator"} {
		directory := t.TempDir()
		for name, data := range c.secrets["dbqpg-credentials-"+member] {
			c.write(filepath.Join(directory, name), data)
		}
		config := fmt.Sprintf(`
listen: "127.0.0.1:%d"
cluster {
  name: dbqpg-nats
  listen: "127.0.0.1:%d"
  no_advertise: true
  tls { cert_file: tls.pem, key_file: tls-key.pem, ca_file: ca.pem, verify: true }
  routes: ["tls://127.0.0.1:%d"]
}`, processtest.Port(t), processtest.Port(t), c.port("dbqpg-nats-0", 6222))
		c.write(filepath.Join(directory, "rogue.conf"), []byte(config))
		command := exec.Command(program(t, "nats-server"), "--config", "rogue.conf", "--debug")
		command.Dir = directory
		rogue := processtest.Start(t, command)
		const joined, refused = "Registering remote route", "Authorization Violation"
		if member == "nats" {
			rogue.Expect(joined)
		} else {
			rogue.Expect(refused)
		}
		rogue.Kill()
	}
}
