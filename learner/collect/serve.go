package collect

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// serve answers one request, with the current position. Requests arrive one at a time.
func (c *Collector) serve(m bus.Message) {
	c.mu.Lock()
	now := time.Now()
	reply := c.dispatcher.answer(m.Subject, m.Data, now)
	c.announceNews()
	reply.Position, reply.Need = c.dispatcher.position, c.dispatcher.need()
	c.mu.Unlock()
	data, err := proto.Marshal(nil, &reply)
	if err == nil {
		err = m.Respond(data)
	}
	// If the answer is lost the actor asks again.
	if err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.config.Log.Warn("cannot answer an actor", "error", err)
	}
}

// observe watches for other learners of the run.
func (c *Collector) observe(m bus.Message) {
	var a proto.Announcement
	if err := proto.Unmarshal(m.Data, &a); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dispatcher.refuse(err)
		return
	}
	if epoch := a.Position.Epoch; epoch > c.config.Epoch {
		signal(c.superseded, fmt.Errorf("%w: epoch %d, after this learner's %d", ErrSuperseded, epoch, c.config.Epoch))
	}
}
