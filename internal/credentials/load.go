package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The files of a member's directory.
const (
	authorityFile   = "ca.pem"
	certificateFile = "tls.pem"
	privateKeyFile  = "tls-key.pem"
	accountsFile    = "accounts.conf"
	serverFile      = "nats-server.conf"
	revokedFile     = "revoked.json"
)

const (
	// maxFile bounds the size of files, in bytes.
	maxFile = 1 << 20
	// soon is how long before a certificate's expiry Load warns.
	soon = 14 * 24 * time.Hour
)

var (
	// ErrExposed reports a secret that others on the machine can read.
	ErrExposed = errors.New("others on this machine can read it")
	// ErrRole reports a peer, or credentials, of another role than required.
	ErrRole = errors.New("not the required role")
	// ErrExpired reports an expired certificate.
	ErrExpired = errors.New("the certificate has expired")
	// ErrRevoked reports the certificate of a member that has been revoked.
	ErrRevoked = errors.New("the certificate is revoked")
)

// Credentials are a member's credentials. Printing them shows no secret.
type Credentials struct {
	identity
	directory   string
	authority   *x509.CertPool
	certificate *tls.Certificate // as it was when loaded
}

// Load reads a member's directory. It rejects a secret that others can read ([ErrExposed]), and a certificate that has
// expired ([ErrExpired]) or was issued by another authority. It warns on log, or slog.Default if nil, of imminent
// expiry.
func Load(directory string, log *slog.Logger) (*Credentials, error) {
	if log == nil {
		log = slog.Default()
	}
	c, err := load(directory)
	if err != nil {
		return nil, fmt.Errorf("credentials in %s: %w", directory, err)
	}
	if left := time.Until(c.Expires()); left < soon {
		log.Warn("the certificate expires soon: make a new one with credentials renew", "credentials", directory,
			"expires", c.Expires())
	}
	return c, nil
}

func load(directory string) (*Credentials, error) {
	c := &Credentials{directory: directory, authority: x509.NewCertPool()}
	authority, err := read(directory, authorityFile)
	if err != nil {
		return nil, err
	}
	if !c.authority.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s contains no certificate", authorityFile)
	}
	if c.certificate, err = c.readCertificate(); err != nil {
		return nil, err
	}
	return c, c.check()
}

// check verifies that others will accept the certificate, with the intermediate certificates in its file, and reads the
// identity in it.
func (c *Credentials) check() (err error) {
	leaf := c.certificate.Leaf
	if c.identity, err = identityOf(leaf); err != nil {
		return fmt.Errorf("%s: %w", certificateFile, err)
	}
	if time.Now().After(leaf.NotAfter) {
		return fmt.Errorf("%s: %w on %s: make a new one with credentials renew", certificateFile, ErrExpired,
			leaf.NotAfter.Format(time.DateOnly))
	}
	options := x509.VerifyOptions{Roots: c.authority, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, der := range c.certificate.Certificate[1:] {
		intermediate, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("%s: %w", certificateFile, err)
		}
		options.Intermediates.AddCert(intermediate)
	}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("%s does not belong to %s: %w", certificateFile, authorityFile, err)
	}
	return nil
}

// readCertificate reads the current certificate and its private key.
func (c *Credentials) readCertificate() (*tls.Certificate, error) {
	public, err := read(c.directory, certificateFile)
	if err != nil {
		return nil, err
	}
	private, err := readSecret(c.directory, privateKeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(public, private)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", certificateFile, privateKeyFile, err)
	}
	return &pair, nil
}

// current returns the certificate to present now: a renewed one if it is complete, or else the one that was loaded.
func (c *Credentials) current() *tls.Certificate {
	if pair, err := c.readCertificate(); err == nil {
		return pair
	}
	return c.certificate
}

func read(directory, name string) ([]byte, error) {
	data, _, err := readFile(filepath.Join(directory, name))
	return data, err
}

// readSecret reads a file that nobody else may read. As in a mounted Kubernetes secret, a file owned by root may be
// readable by its group.
func readSecret(directory, name string) ([]byte, error) {
	path := filepath.Join(directory, name)
	data, info, err := readFile(path)
	if err != nil {
		return nil, err
	}
	allowed := fs.FileMode(0o700)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == 0 {
		allowed = 0o740
	}
	if mode := info.Mode().Perm(); mode&^allowed != 0 {
		return nil, fmt.Errorf("%s: %w (mode %04o): chmod 600 %s", name, ErrExposed, mode, path)
	}
	return data, nil
}

func readFile(path string) ([]byte, fs.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	return data, info, err
}
