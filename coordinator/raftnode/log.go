package raftnode

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger forwards raft's messages to a log, at their levels.
func raftLogger(log *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: lines{log}, DisableTime: true})
}

// lines parses hclog's lines, "[LEVEL] raft: message".
type lines struct{ log *slog.Logger }

func (l lines) Write(line []byte) (int, error) {
	prefix, text, _ := bytes.Cut(line, []byte("]"))
	level := slog.LevelDebug // raft's info messages concern its internals
	switch string(prefix) {
	case "[WARN":
		level = slog.LevelInfo
	case "[ERROR":
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(text)))
	return len(line), nil
}
