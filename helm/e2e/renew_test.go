//go:build e2e

package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The documented commands renew the certificates that the Job has made, here since they are for other hosts:
// coordinators and NATS servers present the new ones without a restart. A role whose Secret is deleted gets another
// key. There is training as before.
func TestRenew(t *testing.T) {
	needsOwn(t, "connections to pods")
	u := newUser(t)
	u.install("kind", "experiments: []", "--wait")
	before := u.pods("")
	authority := u.secret("authority", "ca-key.pem")
	certificates := map[string]string{}
	ports := map[string]string{"coordinator": "7070", "nats": "4222"}
	for component, port := range ports {
		certificates[component] = u.certificate(component, port)
	}

	u.upgrade("kind", "{experiments: [], credentials: {hosts: [other.example]}}")
	u.run("install", "renew")
	if kept := u.secret("authority", "ca-key.pem"); kept != authority || kept == "" {
		t.Error("the authority is another one")
	}
	u.kubectl("annotate", "pods", "--all", "dbqpg.io/e2e=now") // a kubelet looks after a pod that changes at once
	for component, port := range ports {
		u.until(func() string {
			if u.certificate(component, port) == certificates[component] {
				return component + " presents the old certificate"
			}
			return ""
		})
	}
	after := map[string]corev1.Pod{}
	for _, pod := range u.pods("") {
		after[string(pod.UID)] = pod
	}
	for _, pod := range before {
		if now, same := after[string(pod.UID)]; pod.Labels["app.kubernetes.io/component"] != "credentials" &&
			(!same || now.Status.ContainerStatuses[0].RestartCount > 0) {
			t.Errorf("%s is the same: %v; restarts: %v", pod.Name, same, now.Status.ContainerStatuses)
		}
	}

	key := u.secret("actor", "tls-key.pem")
	u.run("install", "rotate")
	if u.secret("actor", "tls-key.pem") == key {
		t.Error("actors have the old key")
	}
	u.untilReady()
	u.submit("name: renewed\ntasks: Swimmer-v2\noverrides: {iterations: 2, batch: 1000}")
	u.coordinator("watch", "renewed")
	if runs := u.runs("renewed"); states(runs) != "done" {
		t.Errorf("in the end: %v", runs)
	}
	u.helm("uninstall", "dbqpg", "--wait")
}

// secret returns a file of a role's Secret.
func (u *user) secret(role, file string) string {
	u.t.Helper()
	return u.kubectl("get", "secret", "dbqpg-credentials-"+role, "--output",
		fmt.Sprintf("go-template={{index .data %q}}", file))
}

// certificate returns the certificate that a component's first pod presents, as a string; "" if it presents none.
func (u *user) certificate(component, port string) string {
	u.t.Helper()
	pods := u.pods(component)
	if len(pods) == 0 {
		return ""
	}
	connection, err := net.Dial("tcp", net.JoinHostPort(pods[0].Status.PodIP, port))
	if err != nil {
		return ""
	}
	defer connection.Close()
	if component == "nats" { // which says something before TLS
		if _, err := bufio.NewReader(connection).ReadString('\n'); err != nil {
			return ""
		}
	}
	secure := tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
	if err := secure.HandshakeContext(u.ctx); err != nil {
		u.t.Fatal(err)
	}
	return string(secure.ConnectionState().PeerCertificates[0].Raw)
}
