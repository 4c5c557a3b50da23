package pause_test

import (
	"context"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/pause"
)

func TestFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !pause.For(ctx, time.Millisecond) {
		t.Error("a pause is cut short by nothing")
	}
	cancel()
	if pause.For(ctx, time.Hour) {
		t.Error("a pause goes on though it is over")
	}
}
