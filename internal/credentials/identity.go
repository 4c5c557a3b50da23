package credentials

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
)

// An identity is what a certificate says of its holder, as spiffe://dbqpg/ROLE/NAME. A member that gets a revoked name
// is another one, with the number of revocations as a third part: spiffe://dbqpg/ROLE/NAME/1.
type identity struct {
	Name        string     `json:"name"`
	Role        proto.Role `json:"role"`
	Revocations int        `json:"revocations,omitempty"` // of the name, before
}

const (
	identityScheme = "spiffe"
	trustDomain    = "dbqpg"
)

func (i identity) uri() *url.URL {
	path := "/" + string(i.Role) + "/" + i.Name
	if i.Revocations > 0 {
		path += "/" + strconv.Itoa(i.Revocations)
	}
	return &url.URL{Scheme: identityScheme, Host: trustDomain, Path: path}
}

// identityOf reads the identity that the authority wrote into a certificate.
func identityOf(certificate *x509.Certificate) (i identity, err error) {
	for _, u := range certificate.URIs {
		if u.Scheme != identityScheme || u.Host != trustDomain {
			continue
		}
		role, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		name, count, again := strings.Cut(rest, "/")
		i = identity{Name: name, Role: proto.Role(role)}
		if again {
			i.Revocations, err = strconv.Atoi(count)
		}
		return i, errors.Join(err, proto.CheckRole(i.Role), checkName(i.Name))
	}
	return identity{}, fmt.Errorf("%w: the certificate names no role", ErrRole)
}
