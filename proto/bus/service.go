package bus

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ServiceConfig describes a service for discovery ("nats micro ls").
type ServiceConfig struct {
	Name, Version, Description string
	Metadata                   map[string]string
	// Endpoints are the service's endpoints, by name.
	Endpoints map[string]Endpoint
}

// Endpoint is one subject of a service. Each request goes to one of the service's instances.
type Endpoint struct {
	Subject string
	// Handle is called with each request, one at a time; it must call respond once, possibly later.
	Handle func(data []byte, respond func([]byte) error)
}

// Service is an instance of a service.
type Service struct{ micro micro.Service }

// Serve starts a service by the conventions of NATS, so that it can be discovered and its statistics read.
func (c *Conn) Serve(config ServiceConfig) (*Service, error) {
	s, err := micro.AddService(c.nats, micro.Config{
		Name: config.Name, Version: config.Version, Description: config.Description, Metadata: config.Metadata,
	})
	if err != nil {
		return nil, fmt.Errorf("offer the service %s: %w", config.Name, translate(err))
	}
	for name, endpoint := range config.Endpoints {
		handle := micro.HandlerFunc(func(r micro.Request) {
			endpoint.Handle(r.Data(), func(data []byte) error { return r.Respond(data) })
		})
		if err := s.AddEndpoint(name, handle, micro.WithEndpointSubject(endpoint.Subject)); err != nil {
			return nil, errors.Join(fmt.Errorf("offer %s on %s: %w", config.Name, endpoint.Subject, translate(err)), s.Stop())
		}
	}
	return &Service{s}, nil
}

// Close stops the service.
func (s *Service) Close() error {
	if err := s.micro.Stop(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("end a service: %w", err)
	}
	return nil
}
