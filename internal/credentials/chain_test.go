package credentials

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

// subordinate returns an authority that another one has made, or for nil a root.
func subordinate(t *testing.T, by *authority) *authority {
	t.Helper()
	private, key, err := newPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	if by == nil {
		by = &authority{certificate: template, key: private}
	} else {
		template.Subject.CommonName = "sub-" + by.certificate.Subject.CommonName
	}
	certificate, err := sign(template, by.certificate, private.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := parseAuthority(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// A certificate whose authority is another's, as cert-manager's may be, belongs to the root in ca.pem if all between
// are in its file.
func TestIntermediateAuthorities(t *testing.T) {
	root := subordinate(t, nil)
	middle := subordinate(t, root)
	last := subordinate(t, middle)
	at := filepath.Join(create(t).path, "coordinator")
	certificate, key, err := last.issue(member{identity{Name: "coordinator", Role: proto.RoleCoordinator}, localHosts,
		time.Time{}}, time.Now(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	write(t, at, privateKeyFile, key)
	write(t, at, authorityFile, root.pem)
	for _, test := range []struct {
		between [][]byte
		belongs bool
	}{{nil, false}, {[][]byte{last.pem}, false}, {[][]byte{middle.pem}, false},
		{[][]byte{last.pem, middle.pem}, true}} {
		write(t, at, certificateFile, append(bytes.Clone(certificate), bytes.Join(test.between, nil)...))
		c, err := Load(at, quiet)
		if !test.belongs {
			if err == nil || !strings.Contains(err.Error(), "does not belong to") {
				t.Errorf("%d of the authorities between: %v", len(test.between), err)
			}
			continue
		}
		if err != nil || c.Role != proto.RoleCoordinator || c.Name != "coordinator" {
			t.Fatal(c, err)
		}
	}
}
