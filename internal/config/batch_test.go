package config

import (
	"strings"
	"testing"
)

// A batch that cannot be says nothing about settings that are compared with it.
func TestBatchAlone(t *testing.T) {
	settings, err := ForTask("Swimmer-v2", NPG, UAPG, Paper)
	if err != nil {
		t.Fatal(err)
	}
	settings.RunDir, settings.Batch = "x", -5
	if err := settings.Validate(); err == nil || !strings.HasPrefix(err.Error(), "--batch -5: must be") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}
