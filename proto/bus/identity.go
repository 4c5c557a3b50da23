package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/dbqpg/dbqpg/proto"
)

// Identity holds a client's credentials.
type Identity struct {
	// Role is the client's role, which decides how it reaches the server's store.
	Role proto.Role
	// Member is the name in its certificate.
	Member string
	// TLS presents the certificate, and verifies the server. It is not used within one process.
	TLS *tls.Config
}

// ServerAuth holds the accounts and the certificate of an embedded server.
type ServerAuth struct {
	// Accounts is the result of the function of that name.
	Accounts string
	// User is the URI of the member as which this process's own connections are admitted.
	User string
	// TLS holds the server's certificate, and the authority of its clients'.
	TLS *tls.Config
}

// final reports whether an attempt to connect has failed in a way that retrying cannot mend.
func final(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, nats.ErrSecureConnWanted) ||
		errors.Is(err, nats.ErrAuthorization) || refusedCertificate(err)
}

// refusedCertificate reports whether the server has ended the TLS handshake.
func refusedCertificate(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "remote error"
}

// advise adds advice to the error of a refused login or certificate.
func advise(err error, identity *Identity) error {
	var expired x509.CertificateInvalidError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case (errors.Is(err, nats.ErrAuthorization) || refusedCertificate(err)) && identity == nil:
		return fmt.Errorf("%w: the server asks for credentials; give --credentials DIR", err)
	case errors.Is(err, nats.ErrAuthorization), refusedCertificate(err):
		return fmt.Errorf("%w: the server does not admit the certificate of %s %s", err, identity.Role, identity.Member)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("%w: the server uses no credentials; it is not the one that --credentials are for", err)
	case errors.As(err, &expired) && expired.Reason == x509.Expired:
		return fmt.Errorf("%w: renew the server's certificate", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: the server's certificate must be issued for the name used to reach it here", err)
	case errors.As(err, &authority) && identity == nil:
		return fmt.Errorf("%w: give --credentials DIR, with the authority that issued the server's certificate", err)
	case errors.As(err, &authority):
		return fmt.Errorf("%w: the server's certificate was issued by another authority than the credentials", err)
	}
	return err
}
