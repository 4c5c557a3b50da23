package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/proto"
)

// right is a permission. Roles have several.
type right int

const (
	look       right = 1 << iota // read everything but backups
	train                        // take runs, hold them and send heartbeats
	administer                   // everything else
)

// rights returns a role's rights. Without credentials everybody is an operator.
func rights(role proto.Role) right {
	switch role {
	case proto.RoleObserver:
		return look
	case proto.RoleLearner:
		return look | train
	case proto.RoleOperator, proto.RoleCoordinator:
		return look | train | administer
	}
	return 0
}

// sender is who has sent a request. Without credentials everybody is an operator without a name.
type sender struct {
	role proto.Role
	name string
}

type senderKey struct{}

// withSender records a request's sender in its context.
func (a *API) withSender(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), senderKey{}, a.sender(r)))
}

// sender returns a request's sender, from the connection's certificate or the request's token.
func (a *API) sender(r *http.Request) (s sender) {
	var err error
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.TLS == nil:
		s.role = proto.RoleOperator
	case given && len(r.TLS.PeerCertificates) == 0 && a.tokens != "":
		if s.role, s.name, err = a.tokens.Find(token); err != nil {
			a.log.Error("the tokens", "error", err)
		}
	default:
		s.role, s.name, err = credentials.Peer(r.TLS)
	}
	if err != nil {
		return sender{} // which has no rights
	}
	return s
}

// require returns an error if a request's sender has none of the rights.
func require(ctx context.Context, any right) error {
	s, _ := ctx.Value(senderKey{}).(sender)
	if rights(s.role)&any == 0 {
		return &client.Error{Code: client.Forbidden, Message: fmt.Sprintf("the role %q may not do that: docs/security.md says what it may do", s.role)}
	}
	return nil
}

// rightFor returns the right that a command requires.
func rightFor(c *registry.Command) right {
	switch {
	case c.Heartbeat != nil, c.Take != nil, c.Renew != nil, c.Commit != nil, c.Finish != nil, c.Fail != nil, c.Release != nil:
		return train
	}
	return administer
}
