//go:build !gpu

package device_test

import (
	"strings"
	"testing"
)

func TestWithoutCUDA(t *testing.T) {
	if _, _, err := open(t, "cuda:1"); err == nil || !strings.Contains(err.Error(), "make cuda") {
		t.Errorf("--device cuda:1 without CUDA: %v; want to hear of make cuda", err)
	}
	if _, log, _ := open(t, "auto"); !strings.Contains(log, "make cuda") {
		t.Errorf("--device auto without CUDA logged %q; want to hear of make cuda", log)
	}
}
