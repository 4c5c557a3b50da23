package client

import (
	"bytes"
	"context"
	"crypto/rand"
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
)

const (
	// attemptTimeout bounds one attempt at one node, beside the time that it is asked to wait.
	attemptTimeout = 5 * time.Second
	// firstPause and longestPause bound the pause after all nodes were asked in vain; it doubles.
	firstPause, longestPause = 50 * time.Millisecond, 400 * time.Millisecond
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = registry.MaxSnapshot
)

// Refusals to compare errors with by errors.Is.
var (
	NotFound   = &registry.Refusal{Code: registry.NotFound}
	NothingNow = &registry.Refusal{Code: registry.NothingNow}
	StaleEpoch = &registry.Refusal{Code: registry.StaleEpoch}
	NotRunning = &registry.Refusal{Code: registry.NotRunning}
	WrongHash  = &registry.Refusal{Code: registry.WrongHash}
)

// Config holds a client's settings.
type Config struct {
	// URLs are those of one or more nodes, such as http://127.0.0.1:7070.
	URLs []string
	// HTTP makes the requests; nil is a client of its own. Its redirects are not used.
	HTTP *http.Client
	// Token is sent as a bearer token, if it is not "".
	Token string
	// Log receives what goes wrong and is tried again; nil is slog.Default.
	Log *slog.Logger
}

// Client is a way to the coordinator. It is safe for concurrent use; requests that change
// something are made one after the other.
type Client struct {
	name   string
	token  string
	http   *http.Client
	log    *slog.Logger
	nodes  *nodes
	number chan uint64 // of the last request; whoever has it makes the next
}

// New returns a client, which is not connected until it is used.
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
		urls = append(urls, strings.TrimSuffix(text, "/"))
	}
	client := &Client{
		name: rand.Text(), token: c.Token, http: &http.Client{}, log: c.Log,
		nodes: newNodes(urls), number: make(chan uint64, 1),
	}
	client.number <- 0
	if c.HTTP != nil {
		*client.http = *c.HTTP
	} else {
		client.http.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if client.log == nil {
		client.log = slog.Default()
	}
	return client, nil
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do has a command carried out, once. A refusal is the error.
func (c *Client) Do(ctx context.Context, command registry.Command) (registry.Response, error) {
	var response registry.Response
	once := command.Renew == nil && command.Heartbeat == nil && command.Announce == nil // the others may be done twice
	if once {
		select {
		case n := <-c.number:
			defer func() { c.number <- n + 1 }()
			command.Request = registry.Request{Client: c.name, Number: n + 1}
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
	pause, asked := firstPause, 0
	for {
		node := c.nodes.leader()
		err := c.attempt(ctx, method, node+path, data, result, wait+attemptTimeout)
		if again := c.learn(node, err); !again || ctx.Err() != nil {
			return wrap(ctx, err)
		}
		if asked++; asked < c.nodes.count() {
			continue
		}
		c.log.Debug("the coordinator does not answer; trying again", "node", node, "error", err)
		if !sleep(ctx, pause) {
			return wrap(ctx, err)
		}
		pause, asked = min(2*pause, longestPause), 0
	}
}

// wrap says why an attempt was the last one.
func wrap(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; the coordinator's last answer: %w", ctx.Err(), err)
	}
	return err
}

// sleep waits for a while, and reports whether ctx was not done before.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
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
	case answer.Code == NotLeader && answer.Leader != "" && answer.Leader != node:
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
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(data))
	if err != nil {
		return &Error{Code: Internal, Message: err.Error()}
	}
	if data != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
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

// decode reads an answer: a failure where it is one, and else a result, which a refusal is too.
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
	var failure Failure
	if err := json.Unmarshal(data, &failure); err != nil {
		return &Error{Code: Internal, Message: fmt.Sprintf("%s answered %s, which is no answer of a coordinator", response.Request.URL.Host, response.Status)}
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
