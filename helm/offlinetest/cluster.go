package offlinetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Addresses, of the range that is set aside for tests (RFC 2544): no network has them, this one's namespace apart.
const (
	node     = "198.18.255.1" // of the node, on its loopback device
	pods     = "198.18.0.0/24"
	services = "198.19.0.0/24"
	first    = "198.19.0.1" // of services: the API server
	domain   = "cluster.local"
	nodeName = "node"
)

// Options say what a cluster is made of.
type Options struct {
	Programs  string   // directory of Kubernetes' programs, and coredns
	Images    []string // archives to import
	Directory string   // an empty one, for all files; control groups have its name, and outlive the cluster
	Volumes   int      // how many claims can be bound; any size
}

// cgroup returns the node's control group. It is not shared, since a kubelet ends processes that it does not know
// there.
func (c *Cluster) cgroup() string { return filepath.Base(c.directory) }

// Cluster is a cluster that runs.
type Cluster struct {
	Config     *rest.Config // of an administrator
	Client     kubernetes.Interface
	Kubeconfig string // path of the same

	options   Options
	directory string
	servers   []*server
	stopped   chan struct{} // closed, the policies are no longer looked after
}

// Start starts a cluster, and returns when its node is ready. An error has with it what the servers said last.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{options: options, directory: options.Directory}
	for _, step := range []func(context.Context) error{
		c.makeNetwork, c.makeKeys, c.startControlPlane, c.startRuntime, c.importImages, c.startNode, c.startPolicies,
		c.makeVolumes,
	} {
		if err := step(ctx); err != nil {
			return nil, c.fail(err)
		}
	}
	if err := c.until(ctx, "the node is ready", c.nodeIsReady); err != nil {
		return nil, c.fail(err)
	}
	return c, nil
}

// path returns the path of a file of the cluster.
func (c *Cluster) path(name string) string { return filepath.Join(c.directory, name) }

// program returns the path of a Kubernetes program.
func (c *Cluster) program(name string) string { return filepath.Join(c.options.Programs, name) }

// makeNetwork gives the node its address. It refuses to do so in a network that is not empty: that would be the
// machine's own.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	links, err := run(ctx, "ip", "-oneline", "link")
	if err != nil {
		return err
	}
	if strings.Count(links, "\n") != 1 {
		return fmt.Errorf("offline: this is not a network namespace of its own, there is "+
			"more than a loopback device:\n%s", links)
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", node + "/32", "dev", "lo"},
	} {
		if _, err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	return nil
}

// makeKeys makes all certificates, and the kubeconfig of an administrator, as which all servers act but the kubelet.
func (c *Cluster) makeKeys(context.Context) error {
	a, err := newAuthority(c.path("ca.crt"))
	if err == nil {
		err = a.issue(c.path("apiserver"), "kube-apiserver", "", "127.0.0.1", node, first, "kubernetes.default.svc")
	}
	if err == nil {
		err = a.issue(c.path("service-account"), "service-account", "")
	}
	if err == nil {
		err = c.makeKubeconfig(a, "administrator", "system:masters")
	}
	if err == nil {
		err = c.makeKubeconfig(a, "system:node:"+nodeName, "system:nodes")
	}
	if err != nil {
		return err
	}
	c.Kubeconfig = c.path("administrator.kubeconfig")
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	c.Config.QPS = -1 // no limit
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", certificate-authority: %q}}]
users: [{name: u, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func (c *Cluster) makeKubeconfig(a *authority, user, group string) error {
	path := c.path(user)
	if err := a.issue(path, user, group); err != nil {
		return err
	}
	return c.write(user+".kubeconfig", fmt.Sprintf(kubeconfig, c.path("ca.crt"), path+".crt", path+".key"))
}

func (c *Cluster) write(name, text string) error {
	if err := os.WriteFile(c.path(name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	return nil
}

func (c *Cluster) nodeIsReady(ctx context.Context) error {
	found, err := c.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range found.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return errors.New(condition.Message)
		}
	}
	return errors.New("it does not say")
}

// run runs a command to its end, and returns what it says.
func run(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("offline: %s: %w\n%s", command, err, output)
	}
	return string(output), nil
}
