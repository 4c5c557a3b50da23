package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// Dropped counts the messages that were dropped because a handler was too slow.
func (c *Conn) Dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, sub := range c.subscriptions {
		if n, err := sub.Dropped(); err == nil {
			total += n
		}
	}
	return total
}

// Request sends data and returns the reply. Without one the error wraps ErrNoResponder,
// ErrDisconnected or ctx's.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	ctx, cancel := c.during(ctx)
	defer cancel()
	reply, err := c.nats.RequestWithContext(ctx, subject, data)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", subject, translate(err))
	}
	return reply.Data, nil
}

// during returns ctx, cancelled with the cause ErrDisconnected when the current connection is lost: no reply
// can arrive after that.
func (c *Conn) during(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(session, func() { cancel(ErrDisconnected) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// Publish sends data to all subscribers.
func (c *Conn) Publish(subject string, data []byte) error {
	if err := c.nats.Publish(subject, data); err != nil {
		return fmt.Errorf("publish to %s: %w", subject, translate(err))
	}
	return nil
}

// translate maps the library's errors to this package's.
func translate(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoResponder
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected):
		return ErrDisconnected
	case errors.Is(err, nats.ErrConnectionClosed):
		return ErrClosed
	}
	return err
}

// A Message arrived on a subscription.
type Message struct {
	Subject string
	Data    []byte // the receiver's to keep
	nats    *nats.Msg
}

// Respond answers a request. It does nothing for a message that expects no reply.
func (m Message) Respond(data []byte) error {
	if m.nats.Reply == "" {
		return nil
	}
	if err := m.nats.Respond(data); err != nil {
		return fmt.Errorf("answer on %s: %w", m.Subject, translate(err))
	}
	return nil
}

// Subscription is a subscription that can be ended.
type Subscription struct {
	nats *nats.Subscription
	idle sync.Mutex // held while the handler runs
	done bool
}

// Subscribe calls handle with each message on subject, one at a time.
func (c *Conn) Subscribe(subject string, handle func(Message)) (*Subscription, error) {
	s := new(Subscription)
	sub, err := c.nats.Subscribe(subject, func(m *nats.Msg) {
		s.idle.Lock()
		defer s.idle.Unlock()
		if !s.done {
			handle(Message{Subject: m.Subject, Data: m.Data, nats: m})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, translate(err))
	}
	if err := sub.SetPendingLimits(pendingMessages, pendingBytes); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	s.nats = sub
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscriptions = append(c.subscriptions, sub)
	return s, nil
}

// Close ends the subscription. Once it returns, the handler neither runs nor will.
func (s *Subscription) Close() {
	// After the connection is closed there is nothing left to unsubscribe.
	_ = s.nats.Unsubscribe()
	s.idle.Lock()
	defer s.idle.Unlock()
	s.done = true
}
