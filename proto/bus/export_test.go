package bus

import "github.com/nats-io/nats.go"

// Crossing returns the subjects that cross between the accounts.
var Crossing = crossing

// NATS returns the connection underneath, for tests that do what Conn does not.
func (c *Conn) NATS() *nats.Conn { return c.nats }
