package observe

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traceSettings are OpenTelemetry's settings of an OTLP exporter, as far as they apply to spans in protobuf over HTTP
// (opentelemetry.io/docs/specs/otel/protocol/exporter).
type traceSettings struct {
	endpoint    *url.URL
	headers     http.Header
	timeout     time.Duration
	certificate string // path of the certificate authorities, PEM; "" means the system's
	gzip        bool
}

// readTraceSettings reads the standard variables. It returns nil without an endpoint, or if they disable traces.
func readTraceSettings(getenv func(string) string) (*traceSettings, error) {
	get := func(name string) string { // variables for traces take precedence over those for all signals
		if own := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); own != "" {
			return own
		}
		return getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	endpoint := get("ENDPOINT")
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if protocol := get("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: traces are sent as http/protobuf, usually to port 4318", protocol)
	}
	s := &traceSettings{headers: http.Header{}, timeout: 10 * time.Second, certificate: get("CERTIFICATE"), gzip: get("COMPRESSION") == "gzip"}
	address, err := url.Parse(endpoint)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL such as http://127.0.0.1:4318")
	}
	if getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		address = address.JoinPath("v1", "traces")
	}
	s.endpoint = address
	if text := get("TIMEOUT"); text != "" {
		milliseconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%s: must be a number of milliseconds", text)
		}
		s.timeout = time.Duration(milliseconds) * time.Millisecond
	}
	return s, s.readHeaders(get("HEADERS"))
}

// readHeaders parses key=value,key=value. The values are escaped as in a URL and may be secrets: no error shows them.
func (s *traceSettings) readHeaders(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil {
			return errors.New("OTEL_EXPORTER_OTLP_HEADERS: must be key=value, several separated by commas")
		}
		s.headers.Set(key, value)
	}
	return nil
}

const (
	// complaintInterval is how often lost spans are logged.
	complaintInterval = time.Minute
	maxTraceResponse  = 64 << 10
)

// traceClient sends spans to a collector. It implements [otlptrace.Client] like the SDK's own HTTP client, but without that
// one's dependency on gRPC (8 MB of program). Spans that cannot be sent are lost: the SDK's queue is bounded.
type traceClient struct {
	traceSettings
	http *http.Client
	log  *slog.Logger

	mu         sync.Mutex
	complained time.Time
}

func newTraceClient(s traceSettings, log *slog.Logger) (*traceClient, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if s.certificate != "" {
		pem, err := os.ReadFile(s.certificate)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s contains no PEM certificate", s.certificate)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	// Headers are for the collector, not for redirect targets.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &traceClient{traceSettings: s, log: log, http: &http.Client{Transport: transport, Timeout: s.timeout, CheckRedirect: noRedirect}}, nil
}

// Start implements [otlptrace.Client].
func (c *traceClient) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *traceClient) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. Errors go to the log, and not to the SDK's global handler.
func (c *traceClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// Its encoding equals that of the protocol's request.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err == nil {
		err = c.post(ctx, body)
	}
	if err != nil {
		c.complain(err)
	}
	return nil
}

// post sends a request, and repeats it if the collector asks for that.
func (c *traceClient) post(ctx context.Context, body []byte) error {
	if c.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = packed.Bytes()
	}
	for attempt := 0; ; attempt++ {
		status, err := c.try(ctx, body)
		if err != nil {
			return err
		}
		switch {
		case status >= 200 && status < 300:
			return nil
		case attempt == 0 && (status == http.StatusTooManyRequests || status >= 502 && status <= 504):
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			return fmt.Errorf("%s answers %d %s", c.endpoint.Redacted(), status, http.StatusText(status))
		}
	}
}

func (c *traceClient) try(ctx context.Context, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header = c.headers.Clone()
	request.Header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxTraceResponse)) // so that the connection can be reused
	return response.StatusCode, nil
}

// complain logs lost spans, at a limited rate.
func (c *traceClient) complain(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.complained) >= complaintInterval {
		c.complained = time.Now()
		c.log.Warn("trace spans are lost", "error", err)
	}
}
