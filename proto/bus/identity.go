package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/dbqpg/dbqpg/proto"
)

// Identity is what a client shows a server that asks who it is.
type Identity struct {
	// Role is what the client is, which decides how it reaches the server's store.
	Role proto.Role
	// Key proves it.
	Key Key
	// TLS verifies the server. It is not used within a process.
	TLS *tls.Config
}

// options are the connection's that follow from the identity. Answers arrive on subjects that no other key may
// subscribe to.
func (i *Identity) options() []nats.Option {
	return []nats.Option{
		nats.Nkey(i.Key.public, i.Key.pair.Sign),
		nats.CustomInboxPrefix(inbox(i.Key.public)),
	}
}

// ServerAuth says whom a server in this process lets in.
type ServerAuth struct {
	// Accounts is what the function of that name returns.
	Accounts string
	// TLS holds the server's certificate.
	TLS *tls.Config
}

// final reports whether an attempt to connect has failed so that no other will do better.
func final(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, nats.ErrSecureConnWanted) ||
		errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrNkeysNotSupported)
}

// advise says what to do about a server that refuses this client, or a client that refuses the server.
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
		return fmt.Errorf("%w: the server uses no credentials; it is not one that --credentials were made for", err)
	case errors.As(err, &expired) && expired.Reason == x509.Expired:
		return fmt.Errorf("%w: the server's certificate is to be renewed", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: the server's certificate is to be made for the name that it is called by here", err)
	case errors.As(err, &authority) && identity == nil:
		return fmt.Errorf("%w: give --credentials DIR, with the authority that made the server's certificate", err)
	case errors.As(err, &authority):
		return fmt.Errorf("%w: another authority than that of the credentials made the server's certificate", err)
	}
	return err
}
