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
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/proto"
)

const (
	// firstAttempt and longestAttempt bound one attempt at one node, in addition to the wait that it is asked for. A
	// node that is cut off stays silent, so the first is short; a busy one gets more time for the same request.
	firstAttempt, longestAttempt = 2 * time.Second, 8 * time.Second
	// firstPause and longestPause bound the pause, which doubles, after all nodes were asked in vain.
	firstPause, longestPause = 50 * time.Millisecond, 400 * time.Millisecond
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = registry.MaxSnapshot
)

// Refusals for errors.Is.
var (
	NotFound   = &registry.Refusal{Code: registry.NotFound}
	Exists     = &registry.Refusal{Code: registry.Exists}
	NothingNow = &registry.Refusal{Code: registry.NothingNow}
	Drained    = &registry.Refusal{Code: registry.Drained}
	StaleEpoch = &registry.Refusal{Code: registry.StaleEpoch}
	NotRunning = &registry.Refusal{Code: registry.NotRunning}
	WrongHash  = &registry.Refusal{Code: registry.WrongHash}
)

// Config holds a client's settings.
type Config struct {
	// URLs are the URLs of one or more nodes, such as http://127.0.0.1:7070.
	URLs []string
	// TLS holds the trusted authority and the client's certificate, for https.
	TLS *tls.Config
	// Token authenticates a client without a certificate, over https.
	Token string
	// FailFast makes requests fail at once, until the first answer, if waiting cannot help, as when no node listens.
	FailFast bool
	// Silence, if non-nil, is called with the last error when no node answers, and with nil once one does again.
	Silence func(error)
	// Log records failed attempts; nil means slog.Default.
	Log *slog.Logger
}

// Client makes requests to the coordinator. It is safe for concurrent use; it makes one request at a time that changes
// something.
type Client struct {
	name  string
	http  *http.Client
	token string
	log   *slog.Logger
	nodes *nodes
	hasty atomic.Bool // FailFast, until the first answer
	tell  func(error) // Silence
	mute  atomic.Bool // no node answers, as told
	last  chan last   // the last request; its holder may make the next
}

// last is the last request: its number, and the request itself if it was an unanswered Take.
type last struct {
	number     uint64
	unanswered registry.Take
}

// Open returns a client with the credentials in a directory, "" for none. Its errors name the flags of all programs.
func Open(config Config, directory string) (*Client, error) {
	if directory != "" {
		own, err := credentials.Load(directory, config.Log)
		if err != nil {
			return nil, fmt.Errorf("--credentials: %w", err)
		}
		config.TLS = own.Client(proto.RoleCoordinator)
	}
	c, err := New(config)
	if err != nil {
		return nil, fmt.Errorf("--coordinator: %w", err)
	}
	return c, nil
}

// New returns a client, which connects when it is first used.
func New(c Config) (*Client, error) {
	if len(c.URLs) == 0 {
		return nil, errors.New("no URL of a coordinator is given")
	}
	var urls []string
	for _, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%q is not a coordinator's URL, like http://127.0.0.1:7070", text)
		}
		if c.Token != "" && u.Scheme != "https" {
			return nil, fmt.Errorf("a token would cross the network in the open to %s: use https", text)
		}
		urls = append(urls, strings.TrimSuffix(text, "/"))
	}
	client := &Client{name: rand.Text(), http: &http.Client{}, token: c.Token, log: c.Log, nodes: &nodes{urls: urls},
		last: make(chan last, 1)}
	client.last <- last{}
	client.hasty.Store(c.FailFast)
	if client.tell = c.Silence; c.Silence == nil {
		client.tell = func(error) {}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.Proxy = c.TLS, nil // internal traffic needs no proxy
	client.http.Transport = transport
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if client.log == nil {
		client.log = slog.Default()
	}
	return client, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do executes a command exactly once. It returns a refusal as the error. A Take that was not answered before ctx was
// done and is repeated next is the same request: it returns the run that the coordinator may have assigned meanwhile.
func (c *Client) Do(ctx context.Context, command registry.Command) (response registry.Response, err error) {
	if command.Announce == nil { // which may be executed twice
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
	return response, nil
}

// call repeats a request, to one node after the other, until it is answered. It decodes the answer into result, or
// copies it if result is an io.Writer.
func (c *Client) call(ctx context.Context, method, path string, body, result any, wait time.Duration) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode a request to the coordinator: %w", err)
		}
	}
	rest, asked, patience := firstPause, 0, firstAttempt
	for hopeless := true; ; {
		node := c.nodes.first()
		err := c.attempt(ctx, method, node+path, data, result, wait+patience)
		if again := c.learn(node, err); !again || ctx.Err() != nil {
			c.hasty.Store(false)
			if ctx.Err() == nil && c.mute.Swap(false) {
				c.tell(nil)
			}
			return wrap(ctx, err)
		}
		final := lasting(node, err)
		hopeless = hopeless && final != nil
		if asked++; asked < c.nodes.count() {
			continue
		}
		if hopeless && c.hasty.Load() {
			return final
		}
		if !c.mute.Swap(true) {
			c.tell(err)
		}
		c.log.Debug("the coordinator does not answer; retrying", "node", node, "error", err)
		if !pause.For(ctx, rest) {
			return wrap(ctx, err)
		}
		hopeless, rest, asked, patience = true, min(2*rest, longestPause), 0, min(2*patience, longestAttempt)
	}
}

// wrap adds the last attempt's error to ctx's.
func wrap(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; the coordinator's last answer: %w", ctx.Err(), err)
	}
	return err
}

// learn decides from an attempt's error which node to ask next, and reports whether to retry at all.
func (c *Client) learn(node string, err error) (again bool) {
	var answer *Error
	var refusal *registry.Refusal
	switch {
	case err == nil || errors.As(err, &refusal):
		return false
	case !errors.As(err, &answer), answer.Code == Unavailable, answer.Code == Disk:
		c.nodes.pass(node)
		return true
	}
	return false
}

// attempt makes a request to one node.
func (c *Client) attempt(
	ctx context.Context, method, target string, data []byte, result any, timeout time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(data))
	if err != nil {
		return &Error{Code: Internal, Message: err.Error()}
	}
	request.Header.Set("User-Agent", "dbqpg")
	if data != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" && request.URL.Scheme == "https" { // others' URLs are learned
		request.Header.Set("Authorization", "Bearer "+c.token)
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

// decode reads an answer over HTTP.
func decode(response *http.Response, result any) error {
	body := io.LimitReader(response.Body, maxAnswer)
	if w, ok := result.(io.Writer); ok && response.StatusCode == http.StatusOK {
		if _, err := io.Copy(w, body); err != nil { // part of it is written, so don't retry
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

// decodeBody decodes a failure if it is one, or else a result, possibly a refusal.
func decodeBody(data []byte, result any, from string) error {
	var failure Failure
	if err := json.Unmarshal(data, &failure); err != nil {
		if bytes.Contains(data, []byte("HTTP request to an HTTPS server")) { // as Go's servers say
			text := fmt.Sprintf("%s takes https only: use https://%s and --credentials DIR", from, from)
			return &Error{Code: Internal, Message: text}
		}
		return &Error{Code: Internal, Message: fmt.Sprintf("the answer from %s is not a coordinator's", from)}
	}
	if failure.Error != nil {
		if refusal := failure.Error.Refusal(); refusal != nil {
			return refusal
		}
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
