package faultstest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// maxMessage bounds the size of a message.
const maxMessage = 64 << 20

// Proxy sits between NATS clients and their server. It understands enough of the protocol to separate messages, and
// delivers some twice, late, or both, so that they overtake each other, in both directions. Everything else
// (connecting, subscribing) is forwarded unchanged.
type Proxy struct {
	listener net.Listener
	upstream string
	repeat   float64
	late     float64
	delay    time.Duration
	work     sync.WaitGroup
	end      chan struct{}

	mu  sync.Mutex
	rng *rand.Rand

	// Messages, Repeated and Delayed count the messages that have passed.
	Messages, Repeated, Delayed atomic.Int64
}

// NewProxy returns a proxy of the NATS server at a URL, which runs until the test ends. A message arrives twice with
// probability repeat, and late with probability late, by up to delay.
func NewProxy(t testing.TB, url string, rng *rand.Rand, repeat, late float64, delay time.Duration) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		listener: listener, upstream: strings.TrimPrefix(url, "nats://"), rng: rng,
		repeat: repeat, late: late, delay: delay, end: make(chan struct{}),
	}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		close(p.end)
		listener.Close()
		p.work.Wait()
	})
	return p
}

// URL returns the address for clients.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// String summarises what has passed.
func (p *Proxy) String() string {
	return fmt.Sprintf("%d messages, %d repeated, %d delayed", p.Messages.Load(), p.Repeated.Load(), p.Delayed.Load())
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.connect(client) })
	}
}

// connect forwards messages between a client and the server until one of them disconnects.
func (p *Proxy) connect(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return // disconnect the client, as the server itself would
	}
	defer server.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		p.work.Go(func() {
			p.pass(&line{to: way[1]}, bufio.NewReaderSize(way[0], 64<<10))
			ended <- struct{}{}
		})
	}
	select {
	case <-ended:
	case <-p.end:
	}
}

// line is one direction of a connection.
type line struct {
	mu sync.Mutex
	to net.Conn
}

func (l *line) send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(frame) // a disconnect shows when there is nothing more to read
}

// pass forwards frames: a line and, for a message, its payload.
func (p *Proxy) pass(to *line, from *bufio.Reader) {
	for {
		frame, message, err := readFrame(from)
		if err != nil {
			return
		}
		if !message {
			to.send(frame)
			continue
		}
		p.Messages.Add(1)
		for _, after := range p.fate() {
			if after == 0 {
				to.send(frame)
				continue
			}
			p.work.Go(func() {
				select {
				case <-time.After(after):
					to.send(frame)
				case <-p.end:
				}
			})
		}
	}
}

// fate returns the delay of each delivery of a message.
func (p *Proxy) fate() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	times := make([]time.Duration, 1, 2)
	if p.rng.Float64() < p.repeat {
		p.Repeated.Add(1)
		times = times[:2]
	}
	for i := range times {
		if p.rng.Float64() < p.late {
			p.Delayed.Add(1)
			times[i] = 1 + time.Duration(p.rng.Int64N(int64(p.delay)))
		}
	}
	return times
}

// readFrame reads a line and, if it begins a message, the payload: PUB, HPUB, MSG and HMSG lines end with its size.
func readFrame(from *bufio.Reader) (frame []byte, message bool, err error) {
	if frame, err = from.ReadBytes('\n'); err != nil {
		return nil, false, err
	}
	fields := bytes.Fields(frame)
	if len(fields) < 2 {
		return frame, false, nil
	}
	switch string(bytes.ToUpper(fields[0])) {
	case "PUB", "HPUB", "MSG", "HMSG":
	default:
		return frame, false, nil
	}
	size, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil || size < 0 || size > maxMessage {
		return nil, false, fmt.Errorf("a message of %q bytes: %w", fields[len(fields)-1], err)
	}
	head := len(frame)
	frame = append(frame, make([]byte, size+len("\r\n"))...)
	_, err = io.ReadFull(from, frame[head:])
	return frame, true, err
}
