package observe

import (
	"bytes"
	"cmp"
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
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dbqpg/dbqpg/internal/pause"
)

const (
	// lostInterval is how often lost spans are logged.
	lostInterval     = time.Minute
	maxTraceResponse = 64 << 10
)

// traceClient sends spans to a collector as protobuf over HTTP. It implements [otlptrace.Client] like OpenTelemetry's
// otlptracehttp, without that package's dependency on gRPC (111 packages, 7.5 MB of program). Spans that cannot be sent
// are lost: the SDK's queue is bounded.
type traceClient struct {
	http     *http.Client
	endpoint *url.URL
	headers  http.Header
	gzip     bool
	log      *slog.Logger
	logged   time.Time // of the last message about lost spans
}

// newTraceClient returns a client with the settings of OpenTelemetry's environment variables
// (opentelemetry.io/docs/specs/otel/protocol/exporter), or nil if they ask for no traces.
func newTraceClient(getenv func(string) string, log *slog.Logger) (*traceClient, error) {
	get := func(name string) string { // variables for traces take precedence
		return cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	off := strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none"
	if off || get("ENDPOINT") == "" {
		return nil, nil
	}
	endpoint, err := url.Parse(get("ENDPOINT"))
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL such as http://127.0.0.1:4318")
	}
	if getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		endpoint = endpoint.JoinPath("v1", "traces")
	}
	if protocol := get("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: must be http/protobuf, usually on port 4318", protocol)
	}
	timeout := 10 * time.Second
	if text := get("TIMEOUT"); text != "" {
		milliseconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT=%s: must be a number of milliseconds", text)
		}
		timeout = time.Duration(milliseconds) * time.Millisecond
	}
	headers, err := parseHeaders(get("HEADERS"))
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if path := get("CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s contains no PEM certificate", path)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	// Headers are for the collector, not for redirect targets.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &traceClient{
		http:     &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: noRedirect},
		endpoint: endpoint, headers: headers, gzip: get("COMPRESSION") == "gzip", log: log,
	}, nil
}

// parseHeaders parses key=value,key=value. Values are escaped as in a URL; they may be secrets, so no error shows them.
func parseHeaders(text string) (http.Header, error) {
	headers := http.Header{"Content-Type": {"application/x-protobuf"}}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS: must be key=value, several separated by commas")
		}
		headers.Set(key, value)
	}
	return headers, nil
}

// Start implements [otlptrace.Client].
func (c *traceClient) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *traceClient) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. It logs errors, at a limited rate, instead of returning them to the SDK's
// global handler. The SDK calls it from one goroutine at a time.
func (c *traceClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // same encoding as the protocol's request
	if err == nil {
		err = c.upload(ctx, body)
	}
	if err != nil && time.Since(c.logged) >= lostInterval {
		c.logged = time.Now()
		c.log.Warn("trace spans are lost", "error", err)
	}
	return nil
}

// upload sends a request, and repeats it once if the collector is busy.
func (c *traceClient) upload(ctx context.Context, body []byte) error {
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
	status, err := c.post(ctx, body)
	if err == nil && (status == http.StatusTooManyRequests || status >= 502 && status <= 504) {
		pause.For(ctx, time.Second)
		status, err = c.post(ctx, body)
	}
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("%s responds %d %s", c.endpoint.Redacted(), status, http.StatusText(status))
	}
	return err
}

func (c *traceClient) post(ctx context.Context, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header = c.headers.Clone()
	if c.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxTraceResponse)) // lets the connection be reused
	return response.StatusCode, nil
}
