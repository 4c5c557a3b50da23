// Package offlinetest is a Kubernetes cluster of one node for tests: etcd, Kubernetes' own servers, a kubelet with
// containerd and runc, kube-proxy and CoreDNS, as processes of this machine.
//
// Nothing of it is made up: what runs in a pod runs in a container of the image that its manifest names, under its
// user, with its read-only root, its limits, probes and volumes; and NetworkPolicies hold. What a cluster of many
// machines has besides, this has not: a network between nodes, a provisioner of volumes (there are some to begin with,
// on this machine's disk), and a registry (images are imported from archives). A GPU can be added whose driver is any
// library that one likes ([Cluster.AddGPU]).
//
// [Start] wants root, and network, mount and process namespaces of its own, so that nothing that it makes is left on
// the machine but its directory, control groups of that name, and an empty /var/lib/kubelet. `make chart-e2e`
// (scripts/chart_e2e.sh) makes and removes them, builds Kubernetes and the images, and names everything else that has
// to be installed.
package offlinetest
