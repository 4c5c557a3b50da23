package collect

import (
	"context"
	"errors"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// answerInterval is the minimum time between two announcements requested by actors. It doubles with each, up to
// proto.AnnounceInterval, and halves in every interval without one. Otherwise a thousand actors that join a hundred
// learners would cause ten times as many messages to each of them, and take a minute to join.
const answerInterval = 100 * time.Millisecond

// announceRegularly announces the run until Close, often enough that actors do not forget the learner, and soon when
// they ask.
func (c *Collector) announceRegularly() {
	heartbeat := time.NewTicker(proto.AnnounceInterval)
	defer heartbeat.Stop()
	for pause := answerInterval; ; pause = min(2*pause, proto.AnnounceInterval) {
		select {
		case <-c.closing:
			return
		case <-heartbeat.C:
			c.announce()
			pause = max(pause/4, answerInterval/2)
			continue
		case <-c.discovered:
			c.announce()
		}
		select {
		case <-c.closing:
			return
		case <-time.After(pause):
		}
	}
}

func (c *Collector) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announceLocked()
}

// announceNews announces urgent news, if there is any, and has the learner play if it should. c.mu is held.
func (c *Collector) announceNews() {
	if c.dispatcher.plays {
		c.dispatcher.plays = false
		signal(c.playing, struct{}{})
	}
	if c.dispatcher.news {
		c.announceLocked()
	}
}

// End tells all actors that a run has been trained to its end. One that misses it waits for another learner.
func End(ctx context.Context, conn *bus.Conn, run string) error {
	data, err := proto.Marshal(nil, &proto.Ended{Run: run})
	if err == nil {
		err = conn.Publish(proto.SubjectsOf(run).Positions(), data)
	}
	if err == nil {
		err = conn.Flush(ctx)
	}
	return err
}

// announceLocked tells all actors the learner's position and need. It is a hint: an actor that misses it hears the
// next. c.mu is held.
func (c *Collector) announceLocked() {
	data, err := proto.Marshal(nil, c.dispatcher.announcement())
	if err == nil {
		err = c.conn.Publish(c.subjects.Positions(), data)
	}
	if err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.config.Log.Warn("cannot announce the position", "error", err)
	}
}
