package api

import (
	"context"
	"fmt"
	"net/http"

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

type roleKey struct{}

// withRole records the role of a request's sender in its context.
func withRole(ctx context.Context, role proto.Role) context.Context {
	return context.WithValue(ctx, roleKey{}, role)
}

// sender returns the role of a request's sender, from the connection's certificate.
func sender(r *http.Request) proto.Role {
	if r.TLS == nil {
		return proto.RoleOperator
	}
	role, _, err := credentials.Peer(r.TLS)
	if err != nil {
		return "" // which has no rights
	}
	return role
}

// require returns an error if a request's sender has none of the rights.
func require(ctx context.Context, any right) error {
	role, _ := ctx.Value(roleKey{}).(proto.Role)
	if rights(role)&any == 0 {
		return &client.Error{Code: client.Forbidden, Message: fmt.Sprintf("the role %q may not do that: docs/security.md says what it may do", role)}
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
