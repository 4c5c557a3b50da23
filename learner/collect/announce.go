package collect

import (
	"errors"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// answerInterval is the least time between two announcements that actors ask for. It doubles with each, up to
// proto.AnnounceInterval, and halves in every interval without: a thousand actors that come to a hundred learners would
// have ten times as many sent to each of them, and be a minute in coming.
const answerInterval = 100 * time.Millisecond

// announceRegularly announces the run until Close: so often that nobody believes the learner gone, and soon when actors ask.
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
	c.announceLocked(time.Now())
}

// announceNews announces what the actors should not wait to hear, if there is any. c.mu is held.
func (c *Collector) announceNews(now time.Time) {
	if c.dispatcher.news {
		c.announceLocked(now)
	}
}

// announceLocked tells all actors where the learner stands. It is a hint: whoever misses it hears the next one.
// c.mu is held.
func (c *Collector) announceLocked(now time.Time) {
	data, err := proto.Marshal(nil, c.dispatcher.announcement(now))
	if err == nil {
		err = c.conn.Publish(c.subjects.Positions(), data)
	}
	if err != nil && !errors.Is(err, bus.ErrDisconnected) {
		c.config.Log.Warn("cannot announce the position", "error", err)
	}
}
