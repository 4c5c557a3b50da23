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

// right is what somebody may do. Roles have several.
type right int

const (
	look       right = 1 << iota // read everything but backups
	play                         // say that one is there, and find runs
	train                        // take runs and hold them
	administer                   // all the rest
)

// rights are those of a role. Without credentials everybody is an operator.
func rights(role proto.Role) right {
	switch role {
	case proto.RoleObserver:
		return look
	case proto.RoleActor:
		return play
	case proto.RoleLearner:
		return look | play | train
	case proto.RoleOperator, proto.RoleCoordinator:
		return look | play | train | administer
	}
	return 0
}

type roleKey struct{}

// withRole notes whose request a context is of.
func withRole(ctx context.Context, role proto.Role) context.Context {
	return context.WithValue(ctx, roleKey{}, role)
}

// sender returns whose request it is: as the context says, or else by the connection's certificate.
func sender(r *http.Request) proto.Role {
	if role, ok := r.Context().Value(roleKey{}).(proto.Role); ok {
		return role
	}
	if r.TLS == nil {
		return proto.RoleOperator
	}
	role, _, err := credentials.Peer(r.TLS)
	if err != nil {
		return "" // which may nothing
	}
	return role
}

// require refuses a request whose sender has none of the rights.
func require(ctx context.Context, any right) error {
	role, _ := ctx.Value(roleKey{}).(proto.Role)
	if rights(role)&any == 0 {
		return &client.Error{Code: client.Forbidden, Message: fmt.Sprintf("that is not for the role %q: docs/security.md says what is", role)}
	}
	return nil
}

// rightFor is what a command needs.
func rightFor(c *registry.Command) right {
	switch {
	case c.Heartbeat != nil:
		return play
	case c.Take != nil, c.Renew != nil, c.Commit != nil, c.Finish != nil, c.Fail != nil, c.Release != nil:
		return train
	}
	return administer
}
