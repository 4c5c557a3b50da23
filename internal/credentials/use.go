package credentials

import (
	"crypto/tls"
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
	fmt.Fprintf(f, "%s %s (%s)", c.Role, c.Name, c.directory)
}

// Require returns an error that wraps [ErrRole] unless the member has one of the roles.
func (c *Credentials) Require(roles ...proto.Role) error {
	if !slices.Contains(roles, c.Role) {
		return fmt.Errorf("credentials in %s: %w: they are for role %s, required is %s", c.directory, ErrRole, c.Role,
			list(roles))
	}
	return nil
}

// Identity returns the member's identity on NATS.
func (c *Credentials) Identity() *bus.Identity {
	return &bus.Identity{Role: c.Role, Member: c.Name, TLS: c.Client(proto.RoleNATS, proto.RoleLearner)}
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
	return &bus.ServerAuth{Accounts: string(accounts), User: c.uri().String(),
		TLS: c.Server(proto.RoleLearner, proto.RoleActor)}, nil
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
		if err := c.checkPeer(&state, roles); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}

func (c *Credentials) checkPeer(state *tls.ConnectionState, roles []proto.Role) error {
	peer, err := peerOf(state)
	if err != nil {
		return err
	}
	if !slices.Contains(roles, peer.Role) {
		return fmt.Errorf("%w: %s is of role %s, required is %s", ErrRole, peer.Name, peer.Role, list(roles))
	}
	revoked, err := readRevoked(c.directory)
	if err == nil && peer.Revocations < revoked[peer.Name] {
		err = fmt.Errorf("%w: %s", ErrRevoked, peer.Name)
	}
	return err
}

// readRevoked reads how often members were revoked, by name.
func readRevoked(directory string) (map[string]int, error) {
	revoked := map[string]int{}
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
	peer, err := peerOf(state)
	return peer.Role, peer.Name, err
}

func peerOf(state *tls.ConnectionState) (identity, error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return identity{}, fmt.Errorf("%w: the peer presented no certificate", ErrRole)
	}
	return identityOf(state.VerifiedChains[0][0])
}

func list(roles []proto.Role) string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return strings.Join(names, " or ")
}
