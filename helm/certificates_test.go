package helm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
)

// Each name by which pods call a server is in the certificate that the Job makes.
func TestNamesAreCertified(t *testing.T) {
	t.Parallel()
	r := render(t, parse(t, "credentials: {hosts: [dbqpg.example]}"))
	c := newCluster(t, r)
	c.makeSecrets()
	c.checkNames(func(server string) []byte { return c.secrets["dbqpg-credentials-"+server]["tls.pem"] })
}

// checkNames checks that servers' certificates, in PEM, hold the names by which the manifests call them, and
// dbqpg.example.
func (c *cluster) checkNames(certificate func(server string) []byte) {
	c.t.Helper()
	called := regexp.MustCompile(`(?:https|tls)://[^\s,"']+|=[a-z0-9-]+\.[a-z0-9.-]+\.svc:7071`).FindAllString(
		c.r.manifest, -1)
	if len(called) < 10 {
		c.t.Fatal(called)
	}
	for _, call := range called {
		call = strings.NewReplacer("$(POD_NAME)", "dbqpg-coordinator-2", "=", "raft://").Replace(call)
		u, err := url.Parse(call)
		if err != nil {
			c.t.Fatal(err)
		}
		server := "coordinator"
		if u.Scheme == "tls" {
			server = "nats"
		}
		leaf := parseCertificate(c.t, certificate(server))
		for _, name := range []string{u.Hostname(), "dbqpg.example"} {
			if err := leaf.VerifyHostname(name); err != nil {
				c.t.Errorf("%s: %v", call, err)
			}
		}
	}
}

func parseCertificate(t testing.TB, data []byte) *x509.Certificate {
	t.Helper()
	if block, _ := pem.Decode(data); block != nil {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	t.Fatalf("no certificate in %q", data)
	return nil
}

// What cert-manager makes of the chart's Certificates is what each member needs: it is done by cert-manager's own code,
// from the private key to the Secret, with an issuer whose authority is its own root or another's intermediate. All
// containers run with that: servers and clients let each other in by it, the operator submits, and the worker trains
// with its actors.
func TestCertManager(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	t.Parallel()
	values := trainingValues(t)
	merge(values, "credentials", parse(t, "{mode: cert-manager, issuer: {name: dbqpg}, hosts: [dbqpg.example]}"))
	r := render(t, values)
	for name, chain := range map[string][]authority{
		"root": newAuthorities(t, 1), "intermediate": newAuthorities(t, 2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, r)
			for _, o := range r.ofKind("Certificate") {
				certificate := convert[cmapi.Certificate](t, o.Object)
				c.secrets[certificate.Spec.SecretName] = issue(t, chain, certificate)
			}
			for _, member := range []string{"coordinator", "learner", "actor", "operator", "nats"} {
				c.checkMember(member)
			}
			c.checkNames(func(server string) []byte { return c.secrets["dbqpg-"+server+"-tls"]["tls.crt"] })
			c.train()
		})
	}
}

// checkMember checks what a member's certificate says of it: its role, for how long, and that nobody else is taken for
// a server.
func (c *cluster) checkMember(member string) {
	c.t.Helper()
	leaf := parseCertificate(c.t, c.secrets["dbqpg-"+member+"-tls"]["tls.crt"])
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://dbqpg/"+member+"/"+member {
		c.t.Errorf("%s: %v", member, leaf.URIs)
	}
	if valid := leaf.NotAfter.Sub(leaf.NotBefore); valid != 365*24*time.Hour {
		c.t.Errorf("%s: valid for %v", member, valid)
	}
	serves := slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	if want := member != "actor" && member != "operator"; serves != want || serves != (len(leaf.DNSNames) > 0) {
		c.t.Errorf("%s: may serve: %v as %v, want %v", member, serves, leaf.DNSNames, want)
	}
	if !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) ||
		leaf.KeyUsage != x509.KeyUsageDigitalSignature || leaf.IsCA {
		c.t.Errorf("%s: for %v %v, an authority: %v", member, leaf.KeyUsage, leaf.ExtKeyUsage, leaf.IsCA)
	}
}

// train has all workloads start, an experiment submitted, and its first iteration trained.
func (c *cluster) train() {
	c.t.Helper()
	var started []*process
	for _, workload := range [][2]string{
		{"StatefulSet", "dbqpg-nats"}, {"StatefulSet", "dbqpg-coordinator"}, {"Deployment", "dbqpg-learner"},
		{"Deployment", "dbqpg-actor-standard"},
	} {
		started = append(started, c.startAll(workload[0], workload[1])...)
	}
	for _, p := range started {
		p.ready()
	}
	for kind, name := range map[string]string{"Job": "dbqpg-submit", "Pod": "dbqpg-test"} {
		if status := c.runOnce(kind, name).Wait(); status != 0 {
			c.t.Fatalf("%s: status %d", name, status)
		}
	}
	for _, p := range started {
		if p.container.Name == "learner" {
			p.Expect(`"iteration done","iteration":0,`)
		}
	}
}

// authority is one that makes certificates.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newAuthorities makes authorities, each but the last by the next one: the last is a root.
func newAuthorities(t testing.TB, count int) []authority {
	t.Helper()
	var chain []authority
	for i := range count {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 1),
			Subject:      pkix.Name{CommonName: strings.Repeat("sub-", i) + "authority"},
			NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(2 * 365 * 24 * time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		by := authority{template, key}
		if i > 0 {
			by = chain[0]
		}
		der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		chain = append([]authority{{certificate, key}}, chain...)
	}
	return chain
}

// issue returns the data of the Secret that cert-manager makes for a Certificate: its controllers for keys, requests,
// the issuer "ca" and Secrets do this, with these functions.
func issue(t testing.TB, chain []authority, certificate *cmapi.Certificate) map[string][]byte {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", certificate.Name, err)
		}
	}
	spec := certificate.Spec
	key, err := pki.GeneratePrivateKeyForCertificate(certificate)
	must(err)
	request, err := pki.GenerateCSR(certificate)
	must(err)
	der, err := pki.EncodeCSR(request, key)
	must(err)
	template, err := pki.CertificateTemplateFromCertificateRequest(
		&cmapi.CertificateRequest{Spec: cmapi.CertificateRequestSpec{
			Request:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Duration: spec.Duration, Usages: spec.Usages, IsCA: spec.IsCA,
		}})
	must(err)
	var certificates []*x509.Certificate
	for _, a := range chain {
		certificates = append(certificates, a.certificate)
	}
	bundle, err := pki.SignCSRTemplate(certificates, chain[0].key, template)
	must(err)
	encoded, err := pki.EncodePrivateKey(key, spec.PrivateKey.Encoding)
	must(err)
	return map[string][]byte{"tls.crt": bundle.ChainPEM, "tls.key": encoded, "ca.crt": bundle.CAPEM}
}
