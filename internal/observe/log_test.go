package observe_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/observe"
)

// Each line says once which run and iteration it belongs to, its own word before the logger's.
func TestRunLogger(t *testing.T) {
	var out bytes.Buffer
	base, err := observe.NewLogger(&out, observe.JSON, "info")
	if err != nil {
		t.Fatal(err)
	}
	at, known := uint64(0), false
	iteration := func() (uint64, bool) { return at, known }
	log := observe.RunLogger(base, "mine", iteration)
	for _, c := range []struct {
		write func()
		want  map[string]any
	}{
		{func() { log.Info("m") }, map[string]any{"run": "mine"}},
		{func() { at, known = 7, true; log.Info("m", "a", 1) },
			map[string]any{"a": 1.0, "run": "mine", "iteration": 7.0}},
		{func() { log.Info("m", "iteration", 3) }, map[string]any{"iteration": 3.0, "run": "mine"}},
		{func() { log.With("run", "other", "iteration", 2).Info("m") },
			map[string]any{"iteration": 2.0, "run": "other"}},
		{func() { log.With("b", 1).Info("m") }, map[string]any{"b": 1.0, "iteration": 7.0, "run": "mine"}},
		{func() { log.WithGroup("g").Info("m") }, map[string]any{"g": map[string]any{"iteration": 7.0, "run": "mine"}}},
		{func() { observe.RunLogger(log, "next", iteration).Info("m") },
			map[string]any{"iteration": 7.0, "run": "next"}},
	} {
		out.Reset()
		c.write()
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", out.String(), err)
		}
		for _, key := range []string{"time", "level", "msg"} {
			if got[key] == nil {
				t.Errorf("%s has no %s", out.String(), key)
			}
			delete(got, key)
		}
		if !reflect.DeepEqual(got, c.want) || strings.Count(out.String(), `"run"`) != 1 ||
			strings.Count(out.String(), `"iteration"`) > 1 {
			t.Errorf("%s, want %v", out.String(), c.want)
		}
	}
}

func TestLogFormats(t *testing.T) {
	var out bytes.Buffer
	log, err := observe.NewLogger(&out, observe.Text, "warn")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("unheard")
	log.Warn("heard", "a", 1)
	if line := out.String(); strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "level=WARN msg=heard a=1\n") {
		t.Errorf("wrote %q", line)
	}
	if _, err := observe.NewLogger(&out, "xml", "info"); err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("another format: %v", err)
	}
}
