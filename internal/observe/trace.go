package observe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	tracerName = "github.com/dbqpg/dbqpg"
	// flushTimeout is how long sending the last spans may take when a process ends.
	flushTimeout = 5 * time.Second
)

// nothing does nothing: the end of an absent span.
func nothing(*error) {}

// Span begins a child of ctx's span; end, called with the resulting error or nil, ends it. Without a span in ctx, as
// when traces are off, it does nothing.
func Span(ctx context.Context, name string) (_ context.Context, end func(*error)) {
	parent := trace.SpanFromContext(ctx)
	// Not IsRecording: a commit may follow the end of its iteration.
	if !parent.SpanContext().IsSampled() {
		return ctx, nothing
	}
	ctx, span := parent.TracerProvider().Tracer(tracerName).Start(ctx, name)
	return ctx, func(err *error) { finish(span, err) }
}

// Span begins a span of an episode, "play" or "upload", in the trace of the iteration whose batch it is played for.
func (a *Actor) Span(name, run string, epoch, batch, ticket uint64) (end func(*error)) {
	if a.tracer == nil {
		return nothing
	}
	root := rootOf(run, epoch, batch).WithTraceFlags(trace.FlagsSampled).WithRemote(true)
	attributes := append(batchAttributes(run, batch), attribute.Int64("dbqpg.ticket", int64(ticket)))
	_, span := a.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), root), name,
		trace.WithAttributes(attributes...))
	return func(err *error) { finish(span, err) }
}

// finish ends a span. Stopping the process is not an error of its spans.
func finish(span trace.Span, err *error) {
	if err != nil && *err != nil && !errors.Is(*err, context.Canceled) {
		span.RecordError(*err)
		span.SetStatus(codes.Error, (*err).Error())
	}
	span.End()
}

// rootOf returns the trace and root span IDs of a batch's iteration, the same in every process.
func rootOf(run string, epoch, batch uint64) trace.SpanContext {
	text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(run), epoch), batch)
	sum := sha256.Sum256(text)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]),
		SpanID: trace.SpanID(sum[16:24])})
}

type rootKey struct{}

// withRoot sets the IDs of the next root span.
func withRoot(ctx context.Context, root trace.SpanContext) context.Context {
	return context.WithValue(ctx, rootKey{}, root)
}

// identifiers generates the IDs of new spans: random ones, except those set by withRoot.
type identifiers struct{}

// NewIDs implements [sdktrace.IDGenerator].
func (g identifiers) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if root, ok := ctx.Value(rootKey{}).(trace.SpanContext); ok {
		return root.TraceID(), root.SpanID()
	}
	var id trace.TraceID
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // zero is invalid
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (identifiers) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// startTraces starts tracing if the environment asks for it. stop sends the remaining spans and ends it.
func (p *Process) startTraces(log *slog.Logger) (stop func(), err error) {
	client, err := newTraceClient(os.Getenv, log)
	if err != nil || client == nil {
		return func() {}, err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(otlptrace.NewUnstarted(client)),
		sdktrace.WithIDGenerator(identifiers{}), sdktrace.WithResource(p.resource(log)))
	p.tracer = provider.Tracer(tracerName)
	log.Info("sending traces", "to", client.endpoint.Redacted())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans of the traces were not sent", "error", err)
		}
	}, nil
}

// resource describes the process in its spans. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
func (p *Process) resource(log *slog.Logger) *resource.Resource {
	version, _ := build()
	r, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "dbqpg-"+p.kind),
			attribute.String("service.version", version)),
		resource.WithHost(), resource.WithProcessPID(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		log.Warn("the traces lack some attributes of this process", "error", err)
	}
	return r
}
