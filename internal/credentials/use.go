package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// Expires returns when the certificate that is presented now expires.
func (c *Credentials) Expires() time.Time { return c.current().Leaf.NotAfter }

// Format prints the member's role and name, whatever the verb, and nothing secret.
func (c *Credentials) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%s %s (%s)", c.role, c.name, c.directory)
}

// Require returns an error that wraps [ErrRole] unless the member has one of the roles.
func (c *Credentials) Require(roles ...proto.Role) error {
	if !slices.Contains(roles, c.role) {
		return fmt.Errorf("credentials in %s: %w: they are for role %s, required is %s", c.directory, ErrRole, c.role,
			list(roles))
	}
	return nil
}

// Identity returns the member's identity on NATS. It panics for [proto.RoleNATS], which does not log in.
func (c *Credentials) Identity() *bus.Identity {
	if c.key == nil {
		panic(fmt.Sprintf("credentials: role %s has no identity on NATS", c.role))
	}
	return &bus.Identity{Role: c.role, Key: *c.key, TLS: c.Client()}
}

// ServerAuth returns the accounts and the TLS configuration of an embedded NATS server. The credentials must be a
// learner's or [proto.RoleNATS]'s.
func (c *Credentials) ServerAuth() (*bus.ServerAuth, error) {
	if err := c.Require(proto.RoleLearner, proto.RoleNATS); err != nil {
		return nil, err
	}
	accounts, err := read(c.directory, accountsFile)
	if err != nil {
		return nil, fmt.Errorf("credentials in %s: %w", c.directory, err)
	}
	return &bus.ServerAuth{Accounts: string(accounts), TLS: c.Server()}, nil
}

// Server returns a TLS server's configuration. Given roles, it admits only clients with a certificate of one of them
// (mutual TLS); without roles it admits any client, to be authenticated otherwise.
func (c *Credentials) Server(clients ...proto.Role) *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
	if len(clients) > 0 {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = c.authority
		config.VerifyConnection = c.requirePeer(clients)
	}
	return config
}

// Client returns the configuration of a TLS client that presents its certificate. The server must have one of the same
// authority, for the name used to reach it and, given roles, of one of them.
func (c *Credentials) Client(servers ...proto.Role) *tls.Config {
	config := &tls.Config{
		MinVersion:           tls.VersionTLS13,
		RootCAs:              c.authority,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
	if len(servers) > 0 {
		config.VerifyConnection = c.requirePeer(servers)
	}
	return config
}

// requirePeer returns a check that the peer has one of the roles, and was not revoked.
func (c *Credentials) requirePeer(roles []proto.Role) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		role, name, err := Peer(&state)
		if err == nil && !slices.Contains(roles, role) {
			err = fmt.Errorf("%w: %s is of role %s, required is %s", ErrRole, name, role, list(roles))
		}
		if err == nil {
			err = c.checkRevoked(name, state.VerifiedChains[0][0])
		}
		return err
	}
}

// checkRevoked returns an error for a certificate issued before its member was revoked, as the directory says now.
func (c *Credentials) checkRevoked(name string, certificate *x509.Certificate) error {
	revoked, err := readRevoked(c.directory)
	if err != nil {
		return err
	}
	if at, found := revoked[name]; found && !certificate.NotBefore.Add(skew).After(at) {
		return fmt.Errorf("%w: %s, on %s", ErrRevoked, name, at.Format(time.RFC3339))
	}
	return nil
}

// readRevoked reads when members were revoked, by name.
func readRevoked(directory string) (map[string]time.Time, error) {
	revoked := map[string]time.Time{}
	data, err := read(directory, revokedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return revoked, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &revoked)
	}
	if err != nil {
		return nil, fmt.Errorf("the revoked members, %s: %w", revokedFile, err)
	}
	return revoked, nil
}

// Peer returns the role and name of a connection's peer, whose certificate must have been verified, as by
// [Credentials.Server] with roles and [Credentials.Client].
func Peer(state *tls.ConnectionState) (role proto.Role, name string, err error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", "", fmt.Errorf("%w: the peer presented no certificate", ErrRole)
	}
	return roleOf(state.VerifiedChains[0][0])
}

// roleOf reads the role and the name that the authority wrote into a certificate.
func roleOf(certificate *x509.Certificate) (role proto.Role, name string, err error) {
	for _, u := range certificate.URIs {
		if u.Scheme != identityScheme || u.Host != trustDomain {
			continue
		}
		first, second, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		role = proto.Role(first)
		if err := errors.Join(proto.CheckRole(role), checkName(second)); err != nil {
			return "", "", err
		}
		return role, second, nil
	}
	return "", "", fmt.Errorf("%w: the certificate names no role", ErrRole)
}

func list(roles []proto.Role) string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return strings.Join(names, " or ")
}
