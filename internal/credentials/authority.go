package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

const (
	// authorityYears is how long an authority's own certificate is valid.
	authorityYears = 10
	// skew is how far another machine's clock may lag.
	skew = 5 * time.Minute
)

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte // the certificate
}

// newAuthority creates an authority and returns its private key as PEM.
func newAuthority(now time.Time) (a *authority, key []byte, err error) {
	private, key, err := newPrivateKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "dbqpg authority"},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.AddDate(authorityYears, 0, 0),
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	certificate, err := sign(template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	a, err = parseAuthority(certificate, key)
	return a, key, err
}

// parseAuthority reads an authority from its certificate and private key.
func parseAuthority(certificate, key []byte) (*authority, error) {
	block, _ := pem.Decode(certificate)
	keyBlock, _ := pem.Decode(key)
	if block == nil || keyBlock == nil {
		return nil, errors.New("the authority's files are not in PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the authority's private key: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the authority's private key is a %T, which cannot sign", private)
	}
	return &authority{parsed, signer, certificate}, nil
}

// issue returns a member's certificate, valid until the given time, and its private key, both as PEM.
func (a *authority) issue(m member, now, until time.Time) (certificate, key []byte, err error) {
	private, key, err := newPrivateKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: m.Name, OrganizationalUnit: []string{string(m.Role)}},
		URIs:        []*url.URL{m.uri()},
		NotBefore:   now.Add(-skew),
		NotAfter:    until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if serves(m.Role) { // nobody else is accepted as a server, whatever it claims
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		for _, host := range m.Hosts {
			if ip := net.ParseIP(host); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, host)
			}
		}
	}
	certificate, err = sign(template, a.certificate, private.Public(), a.key)
	return certificate, key, err
}

// serves reports whether a role's processes accept connections.
func serves(role proto.Role) bool {
	return slices.Contains([]proto.Role{proto.RoleNATS, proto.RoleLearner, proto.RoleCoordinator}, role)
}

func newPrivateKey() (*ecdsa.PrivateKey, []byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a private key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a private key: %w", err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
