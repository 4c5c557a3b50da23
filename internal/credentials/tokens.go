package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
)

// Tokens is the name of a file of tokens, which prove a role to a coordinator without a certificate. Each line has the
// SHA-256 of a token, its role and its name; tokens themselves are not stored. Removing a line revokes its token at
// once.
type Tokens string

// Add makes a token, which it returns, for a role.
func (t Tokens) Add(name string, role proto.Role) (token string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if role != proto.RoleOperator && role != proto.RoleObserver {
		return "", fmt.Errorf("--role %s: tokens are for operators and observers; learners have certificates", role)
	}
	file, err := os.OpenFile(string(t), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	token = rand.Text()
	_, err = fmt.Fprintf(file, "%x %s %s\n", sha256.Sum256([]byte(token)), role, name)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return token, err
}

// Token returns a client's token, which a file contains, and the TLS configuration that verifies a coordinator by the
// authority's ca.pem, for a client without a certificate.
func Token(file, authority string) (token string, config *tls.Config, err error) {
	data, err := readSecret(filepath.Dir(file), filepath.Base(file))
	if err != nil {
		return "", nil, fmt.Errorf("--token-file: %w", err)
	}
	if authority == "" {
		return "", nil, errors.New("--token-file: give --ca too, the authority's ca.pem, so that nobody else gets " +
			"the token")
	}
	pem, err := os.ReadFile(authority)
	if err != nil {
		return "", nil, fmt.Errorf("--ca: %w", err)
	}
	known := &Credentials{authority: x509.NewCertPool(), directory: filepath.Dir(authority)}
	if !known.authority.AppendCertsFromPEM(pem) {
		return "", nil, fmt.Errorf("--ca: %s holds no certificate", authority)
	}
	config = known.Client(proto.RoleCoordinator)
	config.GetClientCertificate = nil
	return strings.TrimSpace(string(data)), config, nil
}

// Find returns the role and the name of a token, "" if it is not in the file.
func (t Tokens) Find(token string) (role proto.Role, name string, err error) {
	data, err := readSecret(filepath.Dir(string(t)), filepath.Base(string(t)))
	if err != nil {
		return "", "", err
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == hash {
			role = proto.Role(fields[1])
			return role, fields[2], proto.CheckRole(role)
		}
	}
	return "", "", nil
}
