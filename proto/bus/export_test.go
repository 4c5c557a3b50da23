package bus

import "github.com/nats-io/nats.go"

// NATS returns the connection underneath, for tests that do what Conn does not.
func (c *Conn) NATS() *nats.Conn { return c.nats }
