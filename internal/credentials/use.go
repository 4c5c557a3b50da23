package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// Role is what the member is.
func (c *Credentials) Role() proto.Role { return c.role }

// Name is the member's name, its own among all members.
func (c *Credentials) Name() string { return c.name }

// Expires is when the certificate's time is over.
func (c *Credentials) Expires() time.Time { return c.certificate.Leaf.NotAfter }

// Format prints whose they are, whatever the verb, and nothing secret.
func (c *Credentials) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%s %s (%s)", c.role, c.name, c.directory)
}

// Require returns an error that wraps [ErrRole] unless the member has one of the roles.
func (c *Credentials) Require(roles ...proto.Role) error {
	if !slices.Contains(roles, c.role) {
		return fmt.Errorf("credentials in %s: %w: they are those of role %s, needed is %s", c.directory, ErrRole, c.role, list(roles))
	}
	return nil
}

// Identity is the member's on a NATS server. It panics for [proto.RoleNATS], which logs in nowhere.
func (c *Credentials) Identity() *bus.Identity {
	if c.key == nil {
		panic(fmt.Sprintf("credentials: role %s has no identity on NATS", c.role))
	}
	return &bus.Identity{Role: c.role, Key: *c.key, TLS: c.Client()}
}

// ServerAuth is what a NATS server in this process needs to let the members in: credentials of a learner, or of
// [proto.RoleNATS].
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

// Server returns the settings of a TLS server. Given roles, it lets in only clients with a certificate of one of them
// (mutual TLS); without, anybody, who then has to prove otherwise who they are.
func (c *Credentials) Server(clients ...proto.Role) *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
	if len(clients) > 0 {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = c.authority
		config.VerifyConnection = requirePeer(clients)
	}
	return config
}

// Client returns the settings of a TLS client that shows its certificate. The server must have one of the same authority,
// for the name that it was called by, and given roles, of one of them.
func (c *Credentials) Client(servers ...proto.Role) *tls.Config {
	config := &tls.Config{
		MinVersion:           tls.VersionTLS13,
		RootCAs:              c.authority,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
	if len(servers) > 0 {
		config.VerifyConnection = requirePeer(servers)
	}
	return config
}

func requirePeer(roles []proto.Role) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		role, name, err := Peer(&state)
		if err == nil && !slices.Contains(roles, role) {
			err = fmt.Errorf("%w: %s is of role %s, needed is %s", ErrRole, name, role, list(roles))
		}
		return err
	}
}

// Peer returns who is at the other end of a connection whose certificate was verified, as [Credentials.Server] with roles
// and [Credentials.Client] do.
func Peer(state *tls.ConnectionState) (role proto.Role, name string, err error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", "", fmt.Errorf("%w: the other side showed no certificate", ErrRole)
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
	return "", "", fmt.Errorf("%w: the certificate names none", ErrRole)
}

func list(roles []proto.Role) string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return strings.Join(names, " or ")
}
