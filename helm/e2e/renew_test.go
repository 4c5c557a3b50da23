//go:build e2e

package e2e

import (
	"bufio"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The documented commands renew the certificates that the Job made. Coordinators show new ones without a restart, NATS after its own,
// and there is training as before.
func TestRenew(t *testing.T) {
	u := newUser(t, "renew")
	u.checkOut()
	u.install("kind", "experiment: null", "--wait")
	before := u.pods("")
	authority := u.shell("kubectl -n renew get secret dbqpg-credentials -o 'jsonpath={.data.authority\\.ca-key\\.pem}'")
	certificates := map[string]string{}
	ports := map[string]string{"coordinator": "7070", "nats": "4222"}
	for component, port := range ports {
		certificates[component] = u.certificate(component, port)
	}

	u.follow("Credentials", "go-template")
	u.follow("Credentials", "credentials renew")
	if kept := u.shell("kubectl -n renew get secret dbqpg-credentials -o 'jsonpath={.data.authority\\.ca-key\\.pem}'"); kept != authority || kept == "" {
		t.Error("the Secret has not the authority that it had")
	}
	u.kubectl("annotate", "pods", "--all", "dbqpg.io/e2e=now") // a kubelet looks after a pod that changes at once
	u.kubectl("rollout", "status", "statefulset", "dbqpg-nats")
	for component, port := range ports {
		u.until(func() string {
			if u.certificate(component, port) == certificates[component] {
				return component + " shows the old certificate"
			}
			return ""
		})
	}
	u.shell("printf 'name: renewed\ntasks: Swimmer-v2\noverrides: {iterations: 2, batch: 1000}\n' | " +
		"kubectl -n renew exec -i dbqpg-coordinator-0 -- coordinator submit -")
	u.coordinator("watch", "renewed")
	if runs := u.runs("renewed"); states(runs) != "done" {
		t.Errorf("in the end: %v", runs)
	}
	after := map[string]corev1.Pod{}
	for _, pod := range u.pods("") {
		after[string(pod.UID)] = pod
	}
	for _, pod := range before {
		now, same := after[string(pod.UID)]
		if nats := strings.HasPrefix(pod.Name, "dbqpg-nats"); same == nats || same && now.Status.ContainerStatuses[0].RestartCount > 0 {
			t.Errorf("%s is the same: %v; restarts: %v", pod.Name, same, now.Status.ContainerStatuses)
		}
	}
	u.helm("uninstall", "dbqpg", "--wait")
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
