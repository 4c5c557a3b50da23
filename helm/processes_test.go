package helm

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

// built is where programs has put them; "" as long as nothing needed them.
var built string

// programs builds the product's programs and the NATS server that the chart names, once.
var programs = sync.OnceValues(func() (directory string, err error) {
	if directory, err = os.MkdirTemp("", "dbqpg-helm-test-"); err != nil {
		return "", err
	}
	built = directory
	for _, build := range [][]string{
		{"-C", "..", "build", "-o", directory, "./coordinator", "./learner", "./actor"},
		{"build", "-o", filepath.Join(directory, "nats-server"), "github.com/nats-io/nats-server/v2"},
	} {
		if output, err := exec.Command("go", build...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(build, " "), err, output)
		}
	}
	return directory, nil
})

// program returns the path of a program.
func program(t testing.TB, name string) string {
	t.Helper()
	directory, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(directory, name)
}

func TestMain(m *testing.M) {
	status := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(status)
}

// cluster runs the containers of a rendering as processes of this machine. In place of names and ports there are ports
// of 127.0.0.1, in place of volumes directories; nothing else differs from what the manifests say.
type cluster struct {
	t       testing.TB
	r       *rendering
	volumes string                       // directory of claims
	secrets map[string]map[string][]byte // by name and key
	ports   map[string]int               // by "POD PORT"
	turn    int                          // of Services' choices among their pods
	names   map[string]int               // a Service's pods, by its name
}

func newCluster(t testing.TB, r *rendering) *cluster {
	c := &cluster{t: t, r: r, volumes: t.TempDir(), secrets: map[string]map[string][]byte{}, ports: map[string]int{},
		names: map[string]int{}}
	for _, o := range append(r.ofKind("StatefulSet"), r.ofKind("Deployment")...) {
		replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		c.names[o.GetName()] = int(replicas)
	}
	for _, o := range r.ofKind("Job") {
		c.names[o.GetName()] = 1
	}
	return c
}

// port returns the port of 127.0.0.1 that stands for a pod's.
func (c *cluster) port(pod string, port int) int {
	key := fmt.Sprint(pod, " ", port)
	if c.ports[key] == 0 {
		c.ports[key] = processtest.Port(c.t)
	}
	return c.ports[key]
}

var (
	absolute  = regexp.MustCompile(`(^|[="])/[^"\s]*`)
	variable  = regexp.MustCompile(`\$\(([A-Z_]+)\)`)
	own       = regexp.MustCompile(`0\.0\.0\.0:(\d+)`)
	nodeName  = regexp.MustCompile(`([a-z0-9-]+)\.[a-z0-9-]+-headless\.` + namespace + `\.svc:(\d+)`)
	shortName = regexp.MustCompile(`([a-z0-9-]+)\.` + namespace + `\.svc:(\d+)`)
)

// here puts this machine's addresses and directories in place of a pod's.
func (c *cluster) here(pod, text string, env, mounts map[string]string) string {
	text = variable.ReplaceAllStringFunc(text, func(v string) string { return env[v[2:len(v)-1]] })
	address := func(pod, port string) string {
		number, err := strconv.Atoi(port)
		if err != nil {
			c.t.Fatal(err)
		}
		return fmt.Sprint("127.0.0.1:", c.port(pod, number))
	}
	text = own.ReplaceAllStringFunc(text, func(s string) string { return address(pod, own.FindStringSubmatch(s)[1]) })
	text = nodeName.ReplaceAllStringFunc(text, func(s string) string {
		m := nodeName.FindStringSubmatch(s)
		return address(m[1], m[2])
	})
	text = shortName.ReplaceAllStringFunc(text, func(s string) string { // a Service: one of its pods
		m := shortName.FindStringSubmatch(s)
		c.turn++
		return address(fmt.Sprint(m[1], "-", c.turn%c.names[m[1]]), m[2])
	})
	// once each: a directory of ours may begin like a mount
	return absolute.ReplaceAllStringFunc(text, func(s string) string {
		before, after, _ := strings.Cut(s, "/")
		path := "/" + after
		for at, directory := range mounts {
			if path == at || strings.HasPrefix(path, at+"/") {
				return before + directory + path[len(at):]
			}
		}
		return s
	})
}

// process is a container at work.
type process struct {
	*processtest.Process
	t         testing.TB
	cluster   *cluster
	pod       string
	container corev1.Container
	preStop   []string // its arguments here
}

// start starts a container of a pod.
func (c *cluster) start(pod string, template *corev1.PodTemplateSpec, container corev1.Container) *process {
	c.t.Helper()
	env := map[string]string{"PATH": os.Getenv("PATH")}
	for _, e := range container.Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			env[e.Name] = pod
		}
	}
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.MountPath] = filepath.Join(c.volumes, c.volume(pod, template, m.Name))
	}
	c.fill(pod, template, env, mounts)
	name := strings.TrimPrefix(container.Image[strings.LastIndex(container.Image, "/")+1:], "library/")
	name, _, _ = strings.Cut(name, ":")
	if len(container.Command) > 0 {
		name = container.Command[0]
	}
	var args []string
	for _, arg := range container.Args {
		args = append(args, c.here(pod, arg, env, mounts))
	}
	command := exec.Command(program(c.t, name), args...)
	command.Env = []string{}
	for key, value := range env {
		command.Env = append(command.Env, key+"="+c.here(pod, value, env, mounts))
	}
	if directory := mounts["/tmp"]; directory != "" {
		command.Env = append(command.Env, "TMPDIR="+directory)
	}
	var preStop []string
	if container.Lifecycle != nil {
		for _, arg := range container.Lifecycle.PreStop.Exec.Command[1:] {
			preStop = append(preStop, c.here(pod, arg, env, mounts))
		}
	}
	return &process{processtest.Start(c.t, command), c.t, c, pod, container, preStop}
}

// volume returns the directory of a volume: that of a claim belongs to the pod for ever, or is shared by all pods that
// name it.
func (c *cluster) volume(pod string, template *corev1.PodTemplateSpec, name string) string {
	for _, v := range template.Spec.Volumes {
		if v.Name == name && v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return pod + "-" + name
}

// fill makes the volumes' directories and the files in them.
func (c *cluster) fill(pod string, template *corev1.PodTemplateSpec, env, mounts map[string]string) {
	for _, directory := range mounts {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, v := range template.Spec.Volumes {
		directory := filepath.Join(c.volumes, c.volume(pod, template, v.Name))
		if !slices.Contains(slices.Collect(maps.Values(mounts)), directory) {
			continue // another container's
		}
		if v.ConfigMap != nil {
			for key, text := range c.configMap(v.ConfigMap.Name) {
				c.write(filepath.Join(directory, key), []byte(text))
			}
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			switch {
			case source.ConfigMap != nil && source.ConfigMap.Name == "kube-root-ca.crt": // which every namespace has
			case source.ConfigMap != nil:
				data := c.configMap(source.ConfigMap.Name)
				for _, item := range source.ConfigMap.Items {
					c.write(filepath.Join(directory, item.Path), []byte(c.here(pod, data[item.Key], env, mounts)))
				}
			case source.Secret != nil:
				for _, item := range source.Secret.Items {
					data, ok := c.secrets[source.Secret.Name][item.Key]
					if !ok {
						c.t.Fatalf("%s: the Secret %s has no %s", pod, source.Secret.Name, item.Key)
					}
					c.write(filepath.Join(directory, item.Path), data)
				}
			}
		}
	}
}

func (c *cluster) configMap(name string) map[string]string {
	data, _, err := unstructured.NestedStringMap(c.r.find(c.t, "ConfigMap", name).Object, "data")
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// write replaces a file that its owner alone may read.
func (c *cluster) write(path string, data []byte) {
	err := os.Remove(path)
	if err == nil || os.IsNotExist(err) {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o400)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// drain ends the process as a node that is drained does: what precedes SIGTERM, SIGTERM, and its grace.
func (p *process) drain() {
	p.t.Helper()
	if p.preStop != nil {
		before := exec.Command(program(p.t, p.container.Lifecycle.PreStop.Exec.Command[0]), p.preStop...)
		if output, err := before.CombinedOutput(); err != nil {
			p.t.Errorf("%s: preStop: %v\n%s", p.pod, err, output)
		}
		p.Expect("lame duck mode")
	}
	p.Signal(syscall.SIGTERM)
	if status := p.Wait(); status != 0 {
		p.t.Errorf("%s ended with status %d", p.pod, status)
	}
}

// ready waits until the container's probes say that it is alive, and ready where there is such a probe.
func (p *process) ready() {
	p.t.Helper()
	for _, probe := range []*corev1.Probe{
		p.container.StartupProbe, p.container.LivenessProbe, p.container.ReadinessProbe,
	} {
		if probe == nil {
			continue
		}
		port := p.cluster.port(p.pod, int(portOf(p.container, probe.HTTPGet.Port.StrVal)))
		processtest.AwaitOK(p.t, fmt.Sprintf("http://127.0.0.1:%d%s", port, probe.HTTPGet.Path))
	}
}

// operator returns the directory of an operator's credentials.
func (c *cluster) operator() string {
	c.t.Helper()
	directory := filepath.Join(c.volumes, "operator")
	for name, data := range c.secrets["dbqpg-credentials-operator"] {
		c.write(filepath.Join(directory, name), data)
	}
	for name, path := range map[string]string{"ca.crt": "ca.pem", "tls.crt": "tls.pem", "tls.key": "tls-key.pem"} {
		if data, issued := c.secrets["dbqpg-operator-tls"][name]; issued {
			c.write(filepath.Join(directory, path), data)
		}
	}
	return directory
}

// page returns what a coordinator's pages answer to an operator at a path, after the status.
func (c *cluster) page(path string) string {
	c.t.Helper()
	own, err := tls.LoadX509KeyPair(filepath.Join(c.operator(), "tls.pem"), filepath.Join(c.operator(), "tls-key.pem"))
	if err != nil {
		c.t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM([]byte(mustRead(c.t, filepath.Join(c.operator(), "ca.pem"))))
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: authority}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(processtest.Context(c.t), http.MethodGet,
		fmt.Sprintf("https://localhost:%d/%s", c.port("dbqpg-coordinator-0", 7070), path), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprint(response.StatusCode, " ", string(body))
}

// ask runs a command of the coordinator's command line as an operator does who reaches a pod by `kubectl port-forward`.
func (c *cluster) ask(args ...string) string {
	c.t.Helper()
	command := exec.CommandContext(processtest.Context(c.t), program(c.t, "coordinator"), args...)
	command.Env = append(os.Environ(), "DBQPG_CREDENTIALS="+c.operator(),
		fmt.Sprint("DBQPG_COORDINATOR=https://localhost:", c.port("dbqpg-coordinator-0", 7070)))
	output, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			output = append(output, failed.Stderr...)
		}
		c.t.Fatalf("%s: %v\n%s", command, err, bytes.TrimSpace(output))
	}
	return string(output)
}
