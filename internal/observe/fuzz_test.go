package observe

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The metrics server answers every request, and never with an internal error.
func FuzzHandler(f *testing.F) {
	handler := NewCoordinator().handler(Config{Log: slog.New(slog.DiscardHandler)})
	f.Add("GET", "/metrics?name[]=x", "text/plain")
	f.Add("POST", "/healthz", "")
	f.Add("GET", "/debug/pprof/", "*/*")
	f.Fuzz(func(t *testing.T, method, target, accept string) {
		r, err := http.NewRequest(method, "http://h"+target, strings.NewReader(accept))
		if err != nil {
			return
		}
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 && r.URL.Path != "/readyz" {
			t.Fatalf("%s %s is answered %d, %s", method, target, w.Code, w.Body)
		}
	})
}
