// Package pause is a sleep that can be cut short.
package pause

import (
	"context"
	"time"
)

// For waits for d, and reports whether ctx was not done before.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
