package offlinetest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startControlPlane starts what holds the cluster's objects and what acts on them.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	const store = "http://127.0.0.1:2379"
	if err := c.start("etcd", "--data-dir="+c.path("etcd"), "--listen-client-urls="+store,
		"--advertise-client-urls="+store,
		"--listen-peer-urls=http://127.0.0.1:2380", "--log-level=warn"); err != nil {
		return err
	}
	administrator := c.path("administrator")
	err := c.start(c.program("kube-apiserver"), "--etcd-servers="+store,
		"--service-cluster-ip-range="+services, "--advertise-address="+node, "--secure-port=6443",
		"--tls-cert-file="+c.path("apiserver.crt"), "--tls-private-key-file="+c.path("apiserver.key"),
		"--client-ca-file="+c.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.path("service-account.crt"),
		"--service-account-signing-key-file="+c.path("service-account.key"),
		"--kubelet-client-certificate="+administrator+".crt", "--kubelet-client-key="+administrator+".key",
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")
	if err != nil {
		return err
	}
	if err := c.until(ctx, "the API server is ready", func(ctx context.Context) error {
		return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}); err != nil {
		return err
	}
	if err := c.start(c.program("kube-controller-manager"), "--kubeconfig="+c.Kubeconfig, "--leader-elect=false",
		"--root-ca-file="+c.path("ca.crt"), "--service-account-private-key-file="+c.path(
			"service-account.key")); err != nil {
		return err
	}
	if err := c.start(c.program("kube-scheduler"), "--kubeconfig="+c.Kubeconfig, "--leader-elect=false"); err != nil {
		return err
	}
	return c.until(ctx, "there is a default ServiceAccount", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
