package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// maxConcurrent bounds the concurrent requests over NATS; more wait in the subscription.
const maxConcurrent = 64

// roles are the roles whose requests arrive at each endpoint: the NATS server decides who may publish there.
var roles = map[string]proto.Role{
	"actor": proto.RoleActor, "read": proto.RoleObserver, "learner": proto.RoleLearner, "all": proto.RoleOperator,
}

// ServeNATS answers requests on a bus while this node leads, as reported by leads, until ctx is done. They are HTTP's requests
// in an envelope, client.Envelope, and reach the leader directly, since no other node subscribes.
func (a *API) ServeNATS(ctx context.Context, conn *bus.Conn, self registry.Node, leads <-chan bool) error {
	slots := make(chan struct{}, maxConcurrent)
	var service *bus.Service
	end := func() error {
		if service == nil {
			return nil
		}
		ending := service
		service = nil
		return ending.Close()
	}
	defer func() {
		if err := end(); err != nil {
			a.log.Warn("the NATS service", "error", err)
		}
		for range maxConcurrent { // wait for requests in progress
			slots <- struct{}{}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case leading := <-leads:
			if err := end(); err != nil {
				return err
			}
			if !leading {
				continue
			}
			var err error
			if service, err = conn.Serve(a.service(ctx, self, conn.MaxPayload(), slots)); err != nil {
				return err
			}
			a.log.Info("answering on NATS", "url", conn.URL(), "service", client.Service)
		}
	}
}

// service returns the service of the leading node.
func (a *API) service(ctx context.Context, self registry.Node, limit int, slots chan struct{}) bus.ServiceConfig {
	handler := a.Handler()
	endpoints := map[string]bus.Endpoint{}
	for name, role := range roles {
		endpoints[name] = bus.Endpoint{Subject: client.Subject(role), Handle: func(data []byte, respond func([]byte) error) {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				if err := respond(a.answer(withRole(ctx, role), handler, data, limit)); err != nil {
					a.log.Debug("an answer over NATS is lost", "error", err)
				}
			}()
		}}
	}
	return bus.ServiceConfig{
		Name: client.Service, Version: "1.0.0", Description: "keeps track of experiments, runs and learners",
		Metadata: map[string]string{"node": self.ID, "url": self.URL}, Endpoints: endpoints,
	}
}

// answer answers one request in an envelope with one.
func (a *API) answer(ctx context.Context, handler http.Handler, data []byte, limit int) []byte {
	status, body := a.open(ctx, handler, data)
	if len(body) > limit-1024 {
		e := &client.Error{Code: client.TooLarge, Message: fmt.Sprintf("the answer has %d bytes, too many for one message: ask for less, or over HTTP", len(body))}
		status, body = statusOf(e.Code), encoded(client.Failure{Error: e})
	}
	return encoded(client.Envelope{Status: status, Body: json.RawMessage(body)})
}

// open answers the request in an envelope as if it had come over HTTP.
func (a *API) open(ctx context.Context, handler http.Handler, data []byte) (status int, body []byte) {
	refuse := func(message string) (int, []byte) {
		return http.StatusBadRequest, encoded(client.Failure{Error: &client.Error{Code: client.Malformed, Message: message}})
	}
	var envelope client.Envelope
	if len(data) > 2*registry.MaxCommand || registry.DecodeStrictly(data, &envelope) != nil {
		return refuse("the request is not an envelope with method, path and body")
	}
	request, err := http.NewRequestWithContext(ctx, envelope.Method, "http://nats"+envelope.Path, bytes.NewReader(envelope.Body))
	if err != nil || !strings.HasPrefix(envelope.Path, "/v1/") || strings.HasPrefix(envelope.Path, "/v1/backup") {
		return refuse("the request's method or path is not available over NATS")
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.Bytes()
}

// encoded returns one of this package's messages as JSON.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // they contain nothing that cannot be encoded
	}
	return data
}
