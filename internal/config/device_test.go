package config_test

import (
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
)

func TestDevice(t *testing.T) {
	for text, want := range map[string]string{"auto": "auto", "cpu": "cpu", "cuda": "cuda:0", "cuda:0": "cuda:0", "cuda:12": "cuda:12"} {
		var d, again config.Device
		if err := d.Set(text); err != nil || d.String() != want {
			t.Errorf("%q is %v, %v; want %s", text, d, err, want)
		}
		if err := again.Set(d.String()); err != nil || again != d {
			t.Errorf("%v read again is %v, %v", d, again, err)
		}
	}
	for _, text := range []string{"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:70000", "CUDA", "cpu:1", "cuda:0 "} {
		d := config.Device{CPU: true}
		if err := d.Set(text); err == nil || d != (config.Device{CPU: true}) {
			t.Errorf("%q was taken for %v", text, d)
		}
	}
}
