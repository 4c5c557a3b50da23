package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/dbqpg/dbqpg/proto"
)

// Identity holds a client's credentials.
type Identity struct {
	// Role is the client's role, which decides how it reaches the server's store.
	Role proto.Role
	// Key proves it.
	Key Key
	// TLS verifies the server. It is not used within one process.
	TLS *tls.Config
}

// options returns the connection options that follow from the identity. Replies arrive on subjects that no other key
// may subscribe to.
func (i *Identity) options() []nats.Option {
	return []nats.Option{
		nats.Nkey(i.Key.public, i.Key.pair.Sign),
		nats.CustomInboxPrefix(inbox(i.Key.public)),
	}
}

// ServerAuth holds the accounts and the certificate of an embedded server.
type ServerAuth struct {
	// Accounts is the result of the function of that name.
	Accounts string
	// TLS holds the server's certificate.
	TLS *tls.Config
}

// final reports whether an attempt to connect has failed in a way that retrying cannot mend.
func final(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, nats.ErrSecureConnWanted) ||
		errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrNkeysNotSupported)
}

// advise adds advice to the error of a refused login or certificate.
func advise(err error, identity *Identity) error {
	var expired x509.CertificateInvalidError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, nats.ErrAuthorization) && identity == nil:
		return fmt.Errorf("%w: the server asks for credentials; give --credentials DIR", err)
	case errors.Is(err, nats.ErrAuthorization):
		return fmt.Errorf("%w: the server does not know the key of this %s, %s", err, identity.Role, identity.Key)
	case errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrNkeysNotSupported):
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
