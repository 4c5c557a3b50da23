package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Start calls Run with a worker's valid settings.
func Start(ctx context.Context, settings *config.Settings, display *runs.Display, log *slog.Logger, metrics *observe.Learner) error {
	coordinator, err := client.Open(client.Config{URLs: settings.Coordinators(), Log: log}, settings.Credentials)
	if err != nil {
		return err
	}
	defer coordinator.Close()
	checkpoints, err := store.Open(ctx, settings.Checkpoints)
	if err != nil {
		return fmt.Errorf("--checkpoints: %w", err)
	}
	name := settings.WorkerName
	if name == "" {
		name = defaultName()
	}
	return Run(ctx, Config{
		Name: name, Settings: settings, Coordinator: coordinator, Store: checkpoints, Display: display, Log: log, Metrics: metrics,
	})
}

// defaultName returns the host's name and the process ID, restricted to the characters allowed in names.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%.40s-%d", host, os.Getpid())
}
