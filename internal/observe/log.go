package observe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Formats of log lines.
const (
	Text = "text" // key=value
	JSON = "json" // one object per line
)

// NewLogger returns a logger with the values of the flags --log-format, [Text] or [JSON], and --log-level, the lowest
// level written.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	least, err := ParseLevel(level)
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case Text:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case JSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: must be %s or %s", format, Text, JSON)
}

// ParseLevel parses the value of --log-level.
func ParseLevel(text string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(text)) != nil {
		return 0, fmt.Errorf("--log-level %q: must be debug, info, warn or error", text)
	}
	return level, nil
}

// RunLogger returns a logger that adds the run and, once known, the iteration to each record, unless the record has
// them already. Given another RunLogger's logger, it replaces the run.
func RunLogger(log *slog.Logger, run string, iteration func() (number uint64, known bool)) *slog.Logger {
	next := log.Handler()
	if h, ok := next.(*runHandler); ok {
		next = h.Handler
	}
	return slog.New(&runHandler{Handler: next, run: run, iteration: iteration})
}

// runHandler adds the run and the iteration to each record.
type runHandler struct {
	slog.Handler
	run                  string
	iteration            func() (uint64, bool)
	hasRun, hasIteration bool // by the logger's own attributes
}

// note records whether an attribute is one that the handler would add.
func note(a slog.Attr, hasRun, hasIteration *bool) {
	*hasRun = *hasRun || a.Key == "run"
	*hasIteration = *hasIteration || a.Key == "iteration"
}

// Handle implements [slog.Handler].
func (h *runHandler) Handle(ctx context.Context, r slog.Record) error {
	hasRun, hasIteration := h.hasRun, h.hasIteration
	r.Attrs(func(a slog.Attr) bool {
		note(a, &hasRun, &hasIteration)
		return true
	})
	r = r.Clone()
	if !hasRun {
		r.AddAttrs(slog.String("run", h.run))
	}
	if number, known := h.iteration(); known && !hasIteration {
		r.AddAttrs(slog.Uint64("iteration", number))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *runHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		note(a, &with.hasRun, &with.hasIteration)
	}
	return &with
}

// WithGroup implements [slog.Handler]. The run and the iteration of later lines are in the group.
func (h *runHandler) WithGroup(name string) slog.Handler {
	within := *h
	within.Handler = h.Handler.WithGroup(name)
	return &within
}
