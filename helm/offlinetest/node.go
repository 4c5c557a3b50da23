package offlinetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const runtimeConfiguration = `version = 2
root = "DIRECTORY/containerd"
state = "DIRECTORY/containerd-state"
[grpc]
  address = "DIRECTORY/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "DIRECTORY/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10"
  restrict_oom_score_adj = true # where the capability to lower it is not given
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "DIRECTORY/cni"
`

// A device of its own for each pod, and a route to it: all traffic passes the node, where kube-proxy rewrites it.
const networkConfiguration = `{
  "cniVersion": "1.0.0", "name": "pods",
  "plugins": [
    {"type": "ptp", "ipam": {
      "type": "host-local", "dataDir": "DIRECTORY/addresses", "ranges": [[{"subnet": "PODS"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: "DIRECTORY/ca.crt"}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: "unix://DIRECTORY/containerd.sock"
cgroupDriver: cgroupfs
cgroupRoot: /CGROUP
failCgroupV1: false
failSwapOn: false
clusterDNS: [NODE]
clusterDomain: DOMAIN
resolvConf: "DIRECTORY/resolv.conf"
podLogsDir: "DIRECTORY/pod-logs"
# What is free on the machine's disk is not the cluster's concern.
evictionHard:
  {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%",
   imagefs.inodesFree: "1%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 2s
`

const nameServerConfiguration = `.:53 {
  bind NODE
  errors
  ready NODE:8181
  kubernetes DOMAIN in-addr.arpa {
    kubeconfig DIRECTORY/administrator.kubeconfig
    ttl 1
  }
}
`

// fill writes a configuration with this cluster's values.
func (c *Cluster) fill(name, text string) error {
	return c.write(name, strings.NewReplacer("DIRECTORY", c.directory, "PODS", pods, "NODE", node, "DOMAIN", domain,
		"CGROUP", c.cgroup()).Replace(text))
}

// startRuntime starts what runs containers.
func (c *Cluster) startRuntime(ctx context.Context) error {
	if err := os.Mkdir(c.path("cni"), 0o755); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	if err := c.fill("cni/pods.conflist", networkConfiguration); err != nil {
		return err
	}
	if err := c.fill("containerd.toml", runtimeConfiguration); err != nil {
		return err
	}
	if err := c.start("containerd", "--config", c.path("containerd.toml")); err != nil {
		return err
	}
	return c.until(ctx, "containerd answers", func(ctx context.Context) error {
		_, err := run(ctx, "ctr", "--address", c.path("containerd.sock"), "version")
		return err
	})
}

func (c *Cluster) importImages(ctx context.Context) error {
	for _, archive := range c.options.Images {
		if _, err := run(ctx, "ctr", "--address", c.path("containerd.sock"), "--namespace", "k8s.io", "images",
			"import", archive); err != nil {
			return err
		}
	}
	return nil
}

// makeCgroups makes the node's place in each hierarchy of control groups: one for each controller, or one for all
// (version 2).
func (c *Cluster) makeCgroups() error {
	const root = "/sys/fs/cgroup"
	hierarchies := []string{root}
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
		if hierarchies, err = filepath.Glob(root + "/*"); err != nil {
			return fmt.Errorf("offline: %w", err)
		}
	}
	for _, hierarchy := range hierarchies {
		if err := os.MkdirAll(filepath.Join(hierarchy, c.cgroup()), 0o755); err != nil {
			return fmt.Errorf("offline: %w", err)
		}
	}
	return nil
}

// kubeletHome is where a kubelet keeps its files. It can be told another place, but not for the sockets of device
// plugins.
const kubeletHome = "/var/lib/kubelet"

// makeHome has the kubelet's files be among the cluster's.
func (c *Cluster) makeHome(ctx context.Context) error {
	for _, directory := range []string{kubeletHome, c.path("kubelet")} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return fmt.Errorf("offline: %w", err)
		}
	}
	_, err := run(ctx, "mount", "--bind", c.path("kubelet"), kubeletHome)
	return err
}

// startNode starts what makes a node of this machine: the kubelet, the proxy for Services and the server of names.
func (c *Cluster) startNode(ctx context.Context) error {
	if err := c.makeCgroups(); err != nil {
		return err
	}
	if err := c.makeHome(ctx); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"kubelet.yaml": kubeletConfiguration, "Corefile": nameServerConfiguration, "resolv.conf": "nameserver NODE\n",
	} {
		if err := c.fill(name, text); err != nil {
			return err
		}
	}
	if err := c.start(c.program("kubelet"), "--config="+c.path("kubelet.yaml"),
		"--kubeconfig="+c.path("system:node:"+nodeName+".kubeconfig"),
		"--hostname-override="+nodeName, "--node-ip="+node); err != nil {
		return err
	}
	if err := c.start(c.program("kube-proxy"), "--kubeconfig="+c.Kubeconfig, "--hostname-override="+nodeName,
		"--proxy-mode=nftables",
		"--cluster-cidr="+pods, "--conntrack-max-per-core=0"); err != nil {
		return err
	}
	return c.start(c.program("coredns"), "-conf", c.path("Corefile"))
}

// Mirror gives an image that the cluster has the name that it has by digest in another registry, and returns the
// digest.
func (c *Cluster) Mirror(ctx context.Context, image, registry string) (digest string, err error) {
	images := []string{"--address", c.path("containerd.sock"), "--namespace", "k8s.io", "images"}
	listed, err := run(ctx, "ctr", append(images, "list", "name=="+image)...)
	if err != nil {
		return "", err
	}
	_, rows, _ := strings.Cut(listed, "\n") // the head
	fields := strings.Fields(rows)
	if len(fields) < 3 {
		return "", fmt.Errorf("offline: there is no image %s:\n%s", image, listed)
	}
	_, path, _ := strings.Cut(image, "/")
	name, _, _ := strings.Cut(path, ":")
	_, err = run(ctx, "ctr", append(images, "tag", "--force", image, registry+"/"+name+"@"+fields[2])...)
	return fields[2], err
}
