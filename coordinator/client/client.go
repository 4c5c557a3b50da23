package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

const (
	// firstAttempt and longestAttempt bound one attempt at one node, beside the time that it is asked to wait. A node that
	// is cut off does not refuse but is silent, so the first is short; one that is busy gets more time, and the same request.
	firstAttempt, longestAttempt = 2 * time.Second, 8 * time.Second
	// firstPause and longestPause bound the pause after all nodes were asked in vain; it doubles.
	firstPause, longestPause = 50 * time.Millisecond, 400 * time.Millisecond
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = registry.MaxSnapshot
)

// Refusals to compare errors with by errors.Is.
var (
	NotFound   = &registry.Refusal{Code: registry.NotFound}
	Exists     = &registry.Refusal{Code: registry.Exists}
	NothingNow = &registry.Refusal{Code: registry.NothingNow}
	StaleEpoch = &registry.Refusal{Code: registry.StaleEpoch}
	NotRunning = &registry.Refusal{Code: registry.NotRunning}
	WrongHash  = &registry.Refusal{Code: registry.WrongHash}
)

// Config holds a client's settings.
type Config struct {
	// URLs are those of one or more nodes, such as http://127.0.0.1:7070.
	URLs []string
	// NATS is a connection to ask over, in place of URLs: the bus knows which node leads.
	NATS *bus.Conn
	// Role decides what is asked over NATS on which subject; "" is an operator.
	Role proto.Role
	// TLS is for https: whom to trust, and what to show.
	TLS *tls.Config
	// Log receives what goes wrong and is tried again; nil is slog.Default.
	Log *slog.Logger
}

// Client is a way to the coordinator. It is safe for concurrent use; requests that change
// something are made one after the other.
type Client struct {
	name    string
	http    *http.Client
	nats    *bus.Conn // nil: HTTP
	subject string
	log     *slog.Logger
	nodes   *nodes
	last    chan last // the last request; whoever has it makes the next
}

// last is a request that was made: its number, and what it was if it was a Take without an answer.
type last struct {
	number     uint64
	unanswered registry.Take
}

// New returns a client, which is not connected until it is used.
func New(c Config) (*Client, error) {
	if len(c.URLs) == 0 && c.NATS == nil {
		return nil, errors.New("no URL of a coordinator is given")
	}
	var urls []string
	if c.NATS != nil {
		c.URLs, urls = nil, []string{""} // one node, whichever it is
	}
	for _, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%q is not a coordinator's URL, like http://127.0.0.1:7070", text)
		}
		urls = append(urls, strings.TrimSuffix(text, "/"))
	}
	client := &Client{
		name: rand.Text(), http: &http.Client{}, log: c.Log, nats: c.NATS, subject: Subject(c.Role),
		nodes: newNodes(urls), last: make(chan last, 1),
	}
	client.last <- last{}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.Proxy = c.TLS, nil // a cluster's own traffic
	client.http.Transport = transport
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if client.log == nil {
		client.log = slog.Default()
	}
	return client, nil
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do has a command carried out, once. A refusal is the error. A Take that was not answered before ctx was done is the same
// request when it is made again next: the run that it was given meanwhile, which nobody knows of, is its answer.
func (c *Client) Do(ctx context.Context, command registry.Command) (response registry.Response, err error) {
	once := command.Renew == nil && command.Heartbeat == nil && command.Announce == nil // the others may be done twice
	if once {
		select {
		case made := <-c.last:
			if command.Take == nil || *command.Take != made.unanswered {
				made.number++
			}
			made.unanswered = registry.Take{}
			defer func() {
				if command.Take != nil && err != nil && ctx.Err() != nil {
					made.unanswered = *command.Take
				}
				c.last <- made
			}()
			command.Request = registry.Request{Client: c.name, Number: made.number}
		case <-ctx.Done():
			return response, ctx.Err()
		}
	}
	if err := c.call(ctx, http.MethodPost, "/v1/commands", command, &response, 0); err != nil {
		return response, err
	}
	if response.Refusal != nil {
		return response, response.Refusal
	}
	return response, nil
}

// call makes a request of the leader until it is answered. The answer is decoded into result, an
// io.Writer gets it as it is.
func (c *Client) call(ctx context.Context, method, path string, body, result any, wait time.Duration) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode a request to the coordinator: %w", err)
		}
	}
	rest, asked, patience := firstPause, 0, firstAttempt
	for {
		node := c.nodes.leader()
		err := c.attempt(ctx, method, node+path, data, result, wait+patience)
		if again := c.learn(node, err); !again || ctx.Err() != nil {
			return wrap(ctx, err)
		}
		if asked++; asked < c.nodes.count() {
			continue
		}
		c.log.Debug("the coordinator does not answer; trying again", "node", node, "error", err)
		if !pause.For(ctx, rest) {
			return wrap(ctx, err)
		}
		rest, asked, patience = min(2*rest, longestPause), 0, min(2*patience, longestAttempt)
	}
}

// wrap says why an attempt was the last one.
func wrap(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; the coordinator's last answer: %w", ctx.Err(), err)
	}
	return err
}

// learn takes from an attempt's error whom to ask next, and reports whether to ask again at all.
func (c *Client) learn(node string, err error) (again bool) {
	var answer *Error
	switch {
	case err == nil:
		return false
	case !errors.As(err, &answer):
		c.nodes.pass(node) // it cannot be reached
		return true
	case answer.Code == NotLeader && answer.Leader != "" && answer.Leader != node && c.nats == nil:
		c.nodes.prefer(answer.Leader)
		return true
	case answer.Code == NotLeader || answer.Code == Unavailable:
		c.nodes.pass(node)
		return true
	}
	return false
}

// attempt makes a request of one node.
func (c *Client) attempt(ctx context.Context, method, target string, data []byte, result any, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if c.nats != nil {
		return c.attemptNATS(ctx, Envelope{Method: method, Path: target, Body: data}, result)
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(data))
	if err != nil {
		return &Error{Code: Internal, Message: err.Error()}
	}
	if data != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if urls := response.Header.Get(NodesHeader); urls != "" {
		c.nodes.add(strings.Split(urls, ","))
	}
	return decode(response, result)
}

// attemptNATS makes a request of whichever node leads.
func (c *Client) attemptNATS(ctx context.Context, e Envelope, result any) error {
	if _, raw := result.(io.Writer); raw {
		return &Error{Code: Forbidden, Message: "that can be asked for over HTTP alone"}
	}
	data, err := json.Marshal(e)
	if err != nil {
		return &Error{Code: Internal, Message: err.Error()}
	}
	if data, err = c.nats.Request(ctx, c.subject, data); err != nil {
		return err
	}
	var answer Envelope
	if err := json.Unmarshal(data, &answer); err != nil {
		return &Error{Code: Internal, Message: "the answer on " + c.subject + " is none of a coordinator"}
	}
	return decodeBody(answer.Body, result, c.subject)
}

// decode reads an answer over HTTP.
func decode(response *http.Response, result any) error {
	body := io.LimitReader(response.Body, maxAnswer)
	if w, ok := result.(io.Writer); ok && response.StatusCode == http.StatusOK {
		if _, err := io.Copy(w, body); err != nil { // part of it is written: no second attempt
			return &Error{Code: Internal, Message: fmt.Sprintf("the answer broke off: %v", err)}
		}
		return nil
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return decodeBody(data, result, response.Request.URL.Host)
}

// decodeBody reads a failure where it is one, and else a result, which a refusal is too.
func decodeBody(data []byte, result any, from string) error {
	var failure Failure
	if err := json.Unmarshal(data, &failure); err != nil {
		return &Error{Code: Internal, Message: fmt.Sprintf("what %s answers is no answer of a coordinator", from)}
	}
	if failure.Error != nil {
		return failure.Error
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return &Error{Code: Internal, Message: fmt.Sprintf("the coordinator's answer: %v", err)}
	}
	return nil
}
