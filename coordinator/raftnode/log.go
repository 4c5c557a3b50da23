package raftnode

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger hands raft's messages on to a log, at their levels.
func raftLogger(log *slog.Logger) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.Info, Output: lines{log}, DisableTime: true})
}

// lines takes hclog's lines, "[LEVEL] raft: message".
type lines struct{ log *slog.Logger }

func (l lines) Write(line []byte) (int, error) {
	prefix, text, _ := bytes.Cut(line, []byte("]"))
	level := slog.LevelDebug // what raft calls information is about its inner life
	switch string(prefix) {
	case "[WARN":
		level = slog.LevelInfo
	case "[ERROR":
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(text)))
	return len(line), nil
}
