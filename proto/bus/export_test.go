package bus

import (
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/dbqpg/dbqpg/proto"
)

// Crossing returns the subjects that cross between the accounts.
func Crossing() []string {
	a := accessOf(proto.RoleActor, "*")
	return slices.Concat(a.publish, a.subscribe)
}

// NATS returns the connection underneath, for tests that do what Conn does not.
func (c *Conn) NATS() *nats.Conn { return c.nats }
