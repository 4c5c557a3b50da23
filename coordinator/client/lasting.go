package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
)

// lasting returns an error with advice if waiting cannot help, or nil if err may pass.
func lasting(url string, err error) error {
	var (
		certificate *tls.CertificateVerificationError
		alert       *net.OpError
		name        *net.DNSError
		answer      *Error
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: is the coordinator running there? (%w)", url, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("the coordinator at %s has no certificate: its URL begins with http:// (%w)", url, err)
	case errors.As(err, &certificate):
		return fmt.Errorf("%s's certificate is not trusted: give --credentials DIR of its authority (%w)", url, err)
	case errors.As(err, &alert) && alert.Op == "remote error": // as crypto/tls calls an alert
		return fmt.Errorf("%s does not accept this client's certificate: give --credentials DIR (%w)", url, err)
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Errorf("%s: there is no host called %s", url, name.Name)
	case errors.As(err, &answer) && answer.Code == Disk:
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
